//! How far each delay level is delivered: a state machine on an internal queue.

use crate::codec::{Put, Take};
use crate::payload::Pair;
use twinmq_store::QueueOffset;

const FORMAT: u32 = 1;

/// The state machine: how far each level is delivered.
#[derive(Debug, Default)]
pub(super) struct Progress {
    levels: Vec<QueueOffset>,
    pub(super) next: QueueOffset,
    pub(super) changed: bool,
}

impl Progress {
    pub(super) fn apply(&mut self, level: u32, to: QueueOffset) {
        let place = level as usize;
        if self.levels.len() <= place {
            self.levels.resize(place + 1, QueueOffset(0));
        }
        if let Some(slot) = self.levels.get_mut(place) {
            *slot = to;
        }
        self.changed = true;
    }

    pub(super) fn image(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put(&FORMAT.to_be_bytes());
        bytes.put(&self.next.0.to_be_bytes());
        let count = u32::try_from(self.levels.len()).unwrap_or(0);
        bytes.put(&count.to_be_bytes());
        for level in &self.levels {
            bytes.put(&level.0.to_be_bytes());
        }
        bytes
    }

    pub(super) fn of(&self, level: u32) -> QueueOffset {
        self.levels.get(level as usize).copied().unwrap_or_default()
    }
}

pub(super) fn encode(level: u32, to: QueueOffset) -> Pair {
    Pair {
        key: format!("delay/{level}").into_bytes(),
        value: Some(to.0.to_string().into_bytes()),
    }
}

pub(super) fn decode(key: &[u8], value: Option<&[u8]>) -> Result<(u32, QueueOffset), String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "not text".to_owned());
    let level = text(key)?
        .strip_prefix("delay/")
        .and_then(|level| level.parse().ok())
        .filter(|level| *level < 256)
        .ok_or_else(|| "an unknown key".to_owned())?;
    let to = text(value.unwrap_or_default())?
        .parse()
        .map_err(|_| "progress is not a number".to_owned())?;
    Ok((level, QueueOffset(to)))
}

pub(super) fn restore(bytes: &[u8]) -> Result<Progress, String> {
    let mut take = Take::new(bytes);
    let mut read = || {
        let format = take.u32()?;
        let mut progress = Progress {
            next: QueueOffset(take.u64()?),
            ..Progress::default()
        };
        for _ in 0..take.u32()? {
            progress.levels.push(QueueOffset(take.u64()?));
        }
        Ok::<_, crate::codec::Short>((format, progress))
    };
    match read() {
        Ok((FORMAT, progress)) => Ok(progress),
        Ok((format, _)) => Err(format!("snapshot format {format} is unknown")),
        Err(short) => Err(short.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn damaged_snapshots_are_refused(bytes in proptest::collection::vec(0_u8.., 0..64)) {
            let mut sound = 1_u32.to_be_bytes().to_vec();
            sound.extend_from_slice(&bytes);
            for bytes in [&bytes, &sound] {
                if let Ok(progress) = restore(bytes) {
                    proptest::prop_assert!(progress.levels.len() * 8 <= bytes.len());
                }
            }
        }
    }

    #[test]
    fn golden_bytes_of_the_image() {
        let mut progress = Progress::default();
        progress.apply(1, QueueOffset(5));
        progress.next = QueueOffset(2);
        let mut want = vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2];
        want.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(progress.image(), want);
        let back = restore(&want).expect("sound");
        assert_eq!((back.levels, back.next), (progress.levels, progress.next));
    }

    #[test]
    fn progress_records_come_back() {
        let pair = encode(17, QueueOffset(99));
        let back = decode(&pair.key, pair.value.as_deref());
        assert_eq!(back, Ok((17, QueueOffset(99))));
        assert!(decode(b"delay/999", Some(b"1")).is_err());
        assert!(decode(b"delay/1", Some(b"x")).is_err());
        assert!(decode(b"delay/1", None).is_err());
    }
}
