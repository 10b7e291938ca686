//! A table by queue number that grows in pages, so that growing never moves what is there.
//!
//! Promises: an untouched page costs 8 bytes; looking up is two loads. Leaves out sharing: one
//! owner, usually under the lane's lock.

use crate::types::QueueNumber;

/// Slots in a page.
const PAGE_SLOTS: usize = 1024;

/// Values by queue number; absent ones read as `None` and are made by `Default`.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    pages: Vec<Option<Box<[T]>>>,
}

impl<T: Default> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

fn split(queue: QueueNumber) -> (usize, usize) {
    let number = queue.0 as usize;
    (number / PAGE_SLOTS, number % PAGE_SLOTS)
}

impl<T: Default> Pages<T> {
    /// The value, if its page was ever touched.
    pub(crate) fn get(&self, queue: QueueNumber) -> Option<&T> {
        let (page, slot) = split(queue);
        self.pages.get(page)?.as_ref()?.get(slot)
    }

    /// The value; its page is made on first touch, which is the only allocation.
    pub(crate) fn get_mut(&mut self, queue: QueueNumber) -> &mut T {
        let (page, slot) = split(queue);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page =
            self.pages[page].get_or_insert_with(|| (0..PAGE_SLOTS).map(|_| T::default()).collect());
        &mut page[slot]
    }

    /// One past the highest number whose page was touched.
    pub(crate) fn bound(&self) -> u32 {
        u32::try_from(self.pages.len() * PAGE_SLOTS).unwrap_or(u32::MAX)
    }
}
