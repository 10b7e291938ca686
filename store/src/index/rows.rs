//! Index rows of the newest stretch of log, in memory: per queue a list of fixed blocks.
//!
//! Promises: one writer (the lane) pushes; a block's count is published with Release, so that
//! whoever reads a count reads whole rows, without a lock. A queue's list of blocks is locked only to find or
//! add a block, never while rows are looked at. Leaves out older rows: they are in sealed runs.

use super::Row;
use crate::pages::Pages;
use crate::run::{Flags, Kind};
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// How many sizes of blocks there are.
const SIZES: usize = 4;
/// Rows of a block of each size: a queue's first block is small, so that a hundred thousand quiet queues are
/// cheap, and the next ones are not much larger than what it has.
const BLOCK_ROWS: [usize; SIZES] = [8, 32, 128, 512];
/// A queue whose list is this long gets blocks of the next size.
const BLOCKS_BEFORE: [usize; SIZES - 1] = [1, 4, 12];
/// Blocks of each size kept ready.
const POOL_BLOCKS: [usize; SIZES] = [256, 64, 32, 8];
/// How many blocks of each size.
pub(crate) type Counts = [usize; SIZES];
/// Flags that a row keeps; where a run ends is the log's matter.
const ROW_FLAGS: u8 = 30;

/// One row: 40 bytes.
#[derive(Debug)]
pub(crate) struct Cell([AtomicU64; 5]);

impl Cell {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 5])
    }
}

/// A block of rows of one queue, in one piece of memory.
#[derive(Debug)]
pub(crate) struct Block<Cells: ?Sized = [Cell]> {
    count: AtomicU32,
    /// Store times in the block are kept as milliseconds from here.
    epoch: AtomicI64,
    cells: Cells,
}

/// The blocks that a reader looks through, in queue order.
pub(crate) type Blocks = SmallVec<[Arc<Block>; 4]>;

fn pack(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn unpack(word: u64) -> (u32, u32) {
    #[expect(clippy::cast_possible_truncation, reason = "halves of a word")]
    ((word >> 32) as u32, word as u32)
}

fn empty<const ROWS: usize>() -> Arc<Block> {
    Arc::new(Block {
        count: AtomicU32::new(0),
        epoch: AtomicI64::new(0),
        cells: [const { Cell::new() }; ROWS],
    })
}

impl Block {
    fn new(size: usize) -> Arc<Self> {
        match size {
            0 => empty::<{ BLOCK_ROWS[0] }>(),
            1 => empty::<{ BLOCK_ROWS[1] }>(),
            2 => empty::<{ BLOCK_ROWS[2] }>(),
            _ => empty::<{ BLOCK_ROWS[3] }>(),
        }
    }

    /// Rows published.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire) as usize
    }

    /// Pushes a row; false if it is full or the row's time is too far from its first one's.
    fn push(&self, row: &Row) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(cell) = self.cells.get(count as usize) else {
            return false;
        };
        if count == 0 {
            self.epoch.store(row.store_time.0, Ordering::Relaxed);
        }
        let since = row.store_time.0 - self.epoch.load(Ordering::Relaxed);
        let Ok(since) = u32::try_from(since) else {
            return false;
        };
        let size = (row.size / 8) << 6 | (row.kind as u32) << 4;
        let flags = u32::from((row.flags.0 & ROW_FLAGS) >> 1);
        let words = [
            row.base.0,
            row.at.0,
            row.record_time.0.cast_unsigned(),
            pack(since, size | flags),
            pack(row.span, row.tag_hash.cast_unsigned()),
        ];
        for (slot, word) in cell.0.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
        true
    }

    fn word(&self, n: usize, word: usize) -> u64 {
        self.cells[n].0[word].load(Ordering::Relaxed)
    }

    /// Queue offset of row `n`, which must be below [`Block::len`].
    pub(crate) fn base(&self, n: usize) -> QueueOffset {
        QueueOffset(self.word(n, 0))
    }

    /// Log offset of row `n`.
    pub(crate) fn at(&self, n: usize) -> LogOffset {
        LogOffset(self.word(n, 1))
    }

    /// Row `n` of `queue`.
    pub(crate) fn row(&self, queue: QueueNumber, n: usize) -> Row {
        let (since, packed) = unpack(self.word(n, 3));
        let (span, tag_hash) = unpack(self.word(n, 4));
        Row {
            queue,
            base: self.base(n),
            at: self.at(n),
            record_time: Timestamp(self.word(n, 2).cast_signed()),
            store_time: Timestamp(self.epoch.load(Ordering::Relaxed) + i64::from(since)),
            size: (packed >> 6) * 8,
            kind: match packed >> 4 & 3 {
                1 => Kind::Message,
                2 => Kind::Batch,
                _ => Kind::Control,
            },
            #[expect(clippy::cast_possible_truncation, reason = "four bits")]
            flags: Flags((packed as u8 & 15) << 1),
            span,
            tag_hash: tag_hash.cast_signed(),
        }
    }

    /// The first row in `0..len` for which `before` is false.
    pub(crate) fn search(&self, len: usize, before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, len);
        while low < high {
            let middle = usize::midpoint(low, high);
            if before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The blocks of one queue.
#[derive(Debug, Default)]
pub(crate) struct Rows(RwLock<VecDeque<Arc<Block>>>);

impl Rows {
    /// The end of the queue as seen from `mark`: after its last row below it. `None` when no such
    /// row is in memory.
    pub(crate) fn end_at(&self, mark: LogOffset) -> Option<QueueOffset> {
        let blocks = self.0.read();
        for block in blocks.iter().rev() {
            let len = block.len();
            if len == 0 {
                continue;
            }
            let below = if block.at(len - 1) < mark {
                len
            } else {
                block.search(len, |n| block.at(n) < mark)
            };
            if below > 0 {
                let (span, _) = unpack(block.word(below - 1, 4));
                return Some(block.base(below - 1).plus(u64::from(span)));
            }
        }
        None
    }

    /// The last row below `mark`.
    pub(crate) fn last_at(&self, queue: QueueNumber, mark: LogOffset) -> Option<Row> {
        let blocks = self.0.read();
        for block in blocks.iter().rev() {
            let below = block.search(block.len(), |n| block.at(n) < mark);
            if below > 0 {
                return Some(block.row(queue, below - 1));
            }
        }
        None
    }

    /// Blocks from the one that holds `from` on, enough for `rows` rows; `None` when `from` lies
    /// before the first row in memory, or none is.
    pub(crate) fn from(&self, from: QueueOffset, rows: usize) -> Option<Blocks> {
        self.find(rows, |block| block.base(0) <= from)
    }

    /// Blocks from the last one whose first row satisfies `before` on, enough for `rows` rows.
    pub(crate) fn find(&self, rows: usize, before: impl Fn(&Block) -> bool) -> Option<Blocks> {
        let blocks = self.0.read();
        let after = blocks.partition_point(|block| block.len() > 0 && before(block));
        let start = after.checked_sub(1)?;
        let mut out = Blocks::new();
        let mut have = 0;
        for block in blocks.range(start..) {
            out.push(Arc::clone(block));
            have += block.len();
            // The first block may be entered near its end.
            if out.len() > 1 && have - out[0].len() >= rows {
                break;
            }
        }
        Some(out)
    }

    /// All blocks, oldest first.
    pub(crate) fn all(&self) -> Blocks {
        self.0.read().iter().map(Arc::clone).collect()
    }

    /// True if no block is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// Drops the blocks whose rows all lie below `at`; gives back how many rows went, and whether
    /// the newest block went too. To be called under the lane's lock.
    pub(crate) fn drop_below(&self, at: LogOffset) -> (u64, bool) {
        let mut blocks = self.0.write();
        let mut rows = 0;
        while let Some(block) = blocks.front() {
            let len = block.len();
            if len == 0 || block.at(len - 1) >= at {
                break;
            }
            rows += len as u64;
            blocks.pop_front();
        }
        let emptied = blocks.is_empty();
        if emptied {
            blocks.shrink_to_fit();
        }
        (rows, emptied && rows > 0)
    }

    fn attach(&self, block: Arc<Block>) {
        self.0.write().push_back(block);
    }

    fn blocks(&self) -> usize {
        self.0.read().len()
    }
}

/// The writing side: the block that each queue fills, and blocks kept ready. Under the lane's lock.
#[derive(Debug, Default)]
pub(crate) struct Pen {
    filling: Pages<Option<Arc<Block>>>,
    pool: [Vec<Arc<Block>>; SIZES],
}

impl Pen {
    /// Pushes a row; readers see it once the mark has passed its entry.
    pub(crate) fn push(&mut self, rows: &Rows, row: &Row) {
        let filling = self.filling.get_mut(row.queue);
        if filling.as_ref().is_some_and(|block| block.push(row)) {
            return;
        }
        let blocks = filling.as_ref().map_or(0, |_| rows.blocks());
        let class = BLOCKS_BEFORE.iter().filter(|more| blocks >= **more).count();
        // An empty pool is refilled outside the lock; a run of more new blocks than it holds pays here.
        let block = self.pool[class].pop().unwrap_or_else(|| Block::new(class));
        let pushed = block.push(row);
        debug_assert!(pushed, "an empty block takes a row");
        rows.attach(Arc::clone(&block));
        *filling = Some(block);
    }

    /// Forgets the block that `queue` fills, after it was dropped from the list.
    pub(crate) fn forget(&mut self, queue: QueueNumber) {
        *self.filling.get_mut(queue) = None;
    }

    /// How many blocks of each size are missing, once a pool has run half empty.
    pub(crate) fn wanted(&self) -> Option<Counts> {
        let low = (0..SIZES).any(|class| self.pool[class].len() < POOL_BLOCKS[class] / 2);
        low.then(|| {
            std::array::from_fn(|class| POOL_BLOCKS[class].saturating_sub(self.pool[class].len()))
        })
    }

    /// Puts blocks in, made outside the lock by [`fresh`].
    pub(crate) fn refill(&mut self, blocks: &mut [Vec<Arc<Block>>; SIZES]) {
        for (pool, blocks) in self.pool.iter_mut().zip(blocks) {
            if pool.capacity() == 0 {
                std::mem::swap(pool, blocks); // the first time: keep its buffer
            } else {
                let room = pool.capacity() - pool.len();
                pool.extend(blocks.drain(..blocks.len().min(room)));
            }
        }
    }
}

/// Blocks for [`Pen::refill`].
pub(crate) fn fresh(wanted: Counts) -> [Vec<Arc<Block>>; SIZES] {
    std::array::from_fn(|class| {
        let mut blocks = Vec::with_capacity(POOL_BLOCKS[class]);
        blocks.extend((0..wanted[class]).map(|_| Block::new(class)));
        blocks
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u64) -> Row {
        Row {
            queue: QueueNumber(20),
            base: QueueOffset(n * 2),
            at: LogOffset(n * 800),
            record_time: Timestamp(-1),
            store_time: Timestamp(1_700_000_000_000 + i64::try_from(n).unwrap()),
            size: 800,
            kind: Kind::Batch,
            flags: Flags::TRANSACTIONAL.with(Flags::MIXED_TAGS),
            span: 2,
            tag_hash: -7,
        }
    }

    #[test]
    fn rows_come_back_whole_and_end_at_marks() {
        let (rows, mut pen) = (Rows::default(), Pen::default());
        for n in 0..3000 {
            pen.push(&rows, &row(n));
        }
        let end = rows.end_at(LogOffset(u64::MAX)).unwrap();
        assert_eq!(end, QueueOffset(6000));
        assert_eq!(rows.end_at(LogOffset(801)), Some(QueueOffset(4)));
        assert_eq!(rows.end_at(LogOffset(0)), None);
        let blocks = rows.from(QueueOffset(1001), 10).unwrap();
        let n = blocks[0].search(blocks[0].len(), |n| {
            blocks[0].row(QueueNumber(20), n).next() <= QueueOffset(1001)
        });
        assert_eq!(blocks[0].row(QueueNumber(20), n), row(500));
    }

    #[test]
    fn dropping_stops_at_the_boundary() {
        let (rows, mut pen) = (Rows::default(), Pen::default());
        for n in 0..100 {
            pen.push(&rows, &row(n));
        }
        let (gone, emptied) = rows.drop_below(LogOffset(72 * 800));
        assert_eq!((gone, emptied), (72, false));
        assert!(rows.from(QueueOffset(143), 1).is_none());
        assert!(rows.from(QueueOffset(144), 1).is_some());
        assert_eq!(rows.drop_below(LogOffset(u64::MAX)), (28, true));
        assert!(rows.from(QueueOffset(0), 1).is_none());
    }
}
