//! The delay levels, as RocketMQ's `messageDelayLevel` spells them.

/// The delay of each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps(Vec<u64>);

impl Steps {
    /// Reads RocketMQ's `messageDelayLevel`: numbers with s, m, h or d, level 1 first.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        for word in text.split_whitespace() {
            let bad = || format!("{word:?} is not a number with s, m, h or d");
            let unit = match word.as_bytes().last() {
                Some(b's') => 1000,
                Some(b'm') => 60_000,
                Some(b'h') => 3_600_000,
                Some(b'd') => 86_400_000,
                _ => return Err(bad()),
            };
            let count: u32 = word[..word.len() - 1].parse().map_err(|_| bad())?;
            steps.push(u64::from(count) * unit);
        }
        if steps.is_empty() || steps.len() > 255 {
            return Err("from 1 to 255 levels".to_owned());
        }
        Ok(Self(steps))
    }

    /// How many levels there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Delay of a level's queue (level minus 1), in ms.
    pub(super) fn of_queue(&self, queue: u32) -> i64 {
        let ms = self.0.get(queue as usize).copied().unwrap_or(0);
        i64::try_from(ms).unwrap_or(i64::MAX)
    }

    /// The longest delay, in ms.
    pub(crate) fn longest(&self) -> u64 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_in_rocketmqs_spelling() {
        let steps = Steps::parse("1s 5s 10s 30s 1m 2m 2h 1d").expect("legal");
        assert_eq!(steps.count(), 8);
        assert_eq!(steps.of_queue(0), 1000);
        assert_eq!(steps.of_queue(6), 7_200_000);
        assert_eq!(steps.longest(), 86_400_000);
        for bad in ["", "5", "s", "1w", "-1s", "99999999999s"] {
            assert!(Steps::parse(bad).is_err(), "{bad}");
        }
    }
}
