//! An index run built, opened and searched; damaged bytes are noticed.

use super::super::build::{QueueEnds, Stretch, write};
use super::*;
use crate::disk::sim::SimDisk;
use crate::run::{Flags, Kind};
use proptest::prelude::*;

const PATH: &str = "/i/run";
const TIME: i64 = 1_700_000_000_000;

fn disk() -> SimDisk {
    let disk = SimDisk::new(1, 1 << 30);
    disk.create_dir_all(Path::new("/i")).unwrap();
    disk
}

/// What a run is made of: rows and queues in order.
#[derive(Debug, Default)]
struct Made {
    rows: Vec<Row>,
    queues: Vec<QueueEnds>,
    starts: Vec<LogOffset>,
    aborted: Vec<(QueueNumber, Aborted)>,
    reigns: Vec<(Reign, LogOffset)>,
    end: u64,
}

impl Made {
    fn write(&self, disk: &SimDisk) -> io::Result<()> {
        let stretch = Stretch {
            start: LogOffset(0),
            end: LogOffset(self.end),
            time: Timestamp(TIME),
            row_count: self.rows.len() as u64,
            rows: &mut self.rows.iter().copied(),
            queues: &self.queues,
            starts: &self.starts,
            aborted: &self.aborted,
            reigns: &self.reigns,
        };
        write(disk, Path::new(PATH), stretch)
    }

    fn of(&self, queue: QueueNumber) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.queue == queue)
    }
}

/// A log of entries (queue, span, size / 8, record time, time step), and some idle queues.
fn made(entries: &[(u8, u8, u8, i8, u8)], idle: u32) -> Made {
    let mut made = Made::default();
    let mut next = std::collections::BTreeMap::new();
    let (mut at, mut time) = (0, TIME);
    for n in 0..idle {
        next.insert(QueueNumber(1000 + n * 3), QueueOffset(u64::from(n)));
    }
    let starts = next.clone();
    for (n, (queue, span, words, record, step)) in entries.iter().enumerate() {
        let queue = QueueNumber(16 + u32::from(*queue) % 7);
        let base = next.entry(queue).or_default();
        time += i64::from(*step);
        let row = Row {
            queue,
            base: *base,
            at: LogOffset(at),
            record_time: Timestamp(i64::from(*record)),
            store_time: Timestamp(time),
            size: 72 + 8 * u32::from(*words),
            kind: if span % 2 == 0 {
                Kind::Batch
            } else {
                Kind::Message
            },
            flags: Flags(span & 0x1e),
            span: u32::from(*span) + 1,
            tag_hash: i32::from(*record) * 1_000_003,
        };
        *base = row.next();
        if n % 3 == 0 {
            made.starts.push(row.at);
        }
        at += u64::from(row.size);
        made.rows.push(row);
    }
    made.end = at.max(1);
    made.rows.sort_by_key(|row| (row.queue, row.base));
    made.queues = next
        .into_iter()
        .map(|(queue, end)| QueueEnds {
            queue,
            start: starts.get(&queue).copied().unwrap_or_default(),
            end,
        })
        .collect();
    made.aborted = made
        .rows
        .iter()
        .filter(|row| row.span % 5 == 0)
        .map(|row| {
            let first = QueueOffset(row.base.0 / 2);
            let producer = u64::from(row.span);
            (
                row.queue,
                Aborted {
                    producer,
                    first,
                    last: row.base,
                },
            )
        })
        .collect();
    made.reigns = vec![(Reign(1), LogOffset(0)), (Reign(4), LogOffset(9))];
    made
}

fn check(made: &Made, run: &IndexRun) {
    const W: Access = Access::Wait;
    run.verify().unwrap();
    assert_eq!(run.reigns().unwrap(), made.reigns);
    let mut queues = Vec::new();
    run.each_queue(|line| {
        queues.push(QueueEnds {
            queue: line.queue,
            start: line.start,
            end: line.end,
        });
        Ok(())
    })
    .unwrap();
    assert_eq!(queues, made.queues);
    for queue in [0, 15, 16, 17, 20, 22, 23, 999, 1000, 1001, 1003, u32::MAX].map(QueueNumber) {
        let line = run.queue(W, queue).unwrap();
        let ends = made.queues.iter().find(|ends| ends.queue == queue);
        assert_eq!(line.map(|line| line.end), ends.map(|ends| ends.end));
        let Some(line) = line else { continue };
        assert_eq!(
            line.bytes,
            made.of(queue).map(|row| u64::from(row.size)).sum::<u64>()
        );
        let highest = made.of(queue).map(|row| row.record_time).max();
        assert_eq!(
            line.record_time,
            highest
                .unwrap_or(Timestamp::UNKNOWN)
                .max(Timestamp::UNKNOWN)
        );
        for from in (0..=line.end.0 + 1).step_by(37) {
            let from = QueueOffset(from);
            let mut rows = Vec::new();
            run.rows(W, &line, from, 5, &mut rows).unwrap();
            let expected: Vec<_> = made
                .of(queue)
                .filter(|row| row.next() > from)
                .take(5)
                .collect();
            assert_eq!(rows.iter().collect::<Vec<_>>(), expected);
            let (mut found, to) = (Vec::new(), QueueOffset(from.0 + 50));
            run.aborted(W, queue, from, to, &mut found).unwrap();
            let all = made
                .aborted
                .iter()
                .filter(|(of, _)| *of == queue)
                .map(|(_, a)| *a);
            let expected: Vec<_> = all.filter(|a| a.last >= from && a.first < to).collect();
            assert_eq!(found, expected);
            let time = Timestamp(TIME + i64::try_from(from.0).unwrap());
            let lower = made.of(queue).find(|row| row.store_time >= time).copied();
            assert_eq!(run.lower(W, &line, time).unwrap(), lower);
        }
        for time in (-128..=127).step_by(15).map(Timestamp) {
            let from = QueueOffset(3);
            let found = run.reaching(W, &line, from, time).unwrap();
            let expected = made
                .of(queue)
                .find(|row| row.next() > from && row.record_time >= time);
            assert_eq!(found.as_ref(), expected);
        }
    }
    for at in (0..made.end).step_by(331).map(LogOffset) {
        let expected = made.starts.iter().rfind(|start| **start <= at).copied();
        assert_eq!(run.start_before(W, at).unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_run_answers_like_its_rows(
        entries in prop::collection::vec(any::<(u8, u8, u8, i8, u8)>(), 0..700),
        idle in 0_u32..400,
    ) {
        let disk = disk();
        let made = made(&entries, idle);
        made.write(&disk).unwrap();
        check(&made, &IndexRun::open(&disk, Path::new(PATH)).unwrap());
    }
}

#[test]
fn every_flipped_byte_is_noticed() {
    let entries: Vec<_> = (0..300_u32)
        .map(|n| (n.to_le_bytes()[0], 3, 5, 7, 1))
        .collect();
    let disk = disk();
    made(&entries, 90).write(&disk).unwrap();
    let path = Path::new(PATH);
    let bytes = disk.open_read(path).unwrap().size().unwrap();
    for at in (0..size(bytes)).step_by(61) {
        assert!(disk.flip(path, at));
        let answer = IndexRun::open(&disk, path).and_then(|run| run.verify());
        assert!(answer.is_err(), "byte {at}");
        assert!(disk.flip(path, at));
    }
    IndexRun::open(&disk, path).unwrap().verify().unwrap();
}

#[test]
fn what_is_out_of_order_or_does_not_fit_is_refused_and_leaves_nothing() {
    let entries = [(0, 1, 1, 1, 1), (0, 1, 1, 1, 1), (1, 1, 1, 1, 1)];
    let spoils: [fn(&mut Made); 7] = [
        |made| made.rows.swap(0, 1),
        |made| made.rows.rotate_left(2),
        |made| made.rows[0].size = 73,
        |made| made.rows[0].size = 1 << 29,
        |made| made.rows[0].store_time = Timestamp(TIME - 1),
        |made| made.end = 10,
        |made| made.queues.clear(),
    ];
    for (n, spoil) in spoils.iter().enumerate() {
        let disk = disk();
        let mut made = made(&entries, 0);
        spoil(&mut made);
        let error = made.write(&disk).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "case {n}");
        assert!(disk.list(Path::new("/i")).unwrap().is_empty());
    }
}

#[test]
fn a_lookup_that_may_not_wait_says_so() {
    let disk = disk();
    let made = made(&[(0, 1, 1, 1, 1)], 0);
    made.write(&disk).unwrap();
    let run = IndexRun::open(&disk, Path::new(PATH)).unwrap();
    let mut blocked = 0;
    for _ in 0..1000 {
        match run.queue(Access::NoWait, QueueNumber(16)) {
            Ok(line) => assert_eq!(line.unwrap().rows, 1),
            Err(RunError::WouldBlock) => blocked += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!((10..500).contains(&blocked));
    disk.fail(crate::disk::sim::Call::Read, 0);
    assert!(matches!(
        run.queue(Access::Wait, QueueNumber(16)),
        Err(RunError::Io(_))
    ));
}

#[test]
fn an_unknown_section_is_skipped_and_the_golden_row_stays() {
    let disk = disk();
    let made = made(&[(0, 1, 1, 1, 1)], 0);
    made.write(&disk).unwrap();
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut page = [0; PAGE_BYTES];
    file.read_at(PAGE_BYTES as u64, &mut page).unwrap();
    let mut expected = Vec::new();
    expected.extend_from_slice(&[0; 16]); // base 0, log offset 0
    expected.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]); // record time 1
    expected.extend_from_slice(&[1, 0, 0, 0]); // 1 ms after the run's time
    expected.extend_from_slice(&[0x90, 2, 0, 0]); // size 80 = 10 * 8 << 6 | message << 4
    expected.extend_from_slice(&[2, 0, 0, 0]); // span 2
    expected.extend_from_slice(&1_000_003_i32.to_le_bytes());
    assert_eq!(page[..40], expected);
    assert_eq!(
        page[BODY_BYTES..BODY_BYTES + 12],
        *b"ROWS\0\0\0\0\x01\0\0\0"
    );
    // The reigns' section under a name of the future.
    file.read_at(0, &mut page).unwrap();
    let sections = u32::from(page[12]);
    let line = HEAD_BYTES + 5 * SECTION_BYTES;
    assert_eq!(page[line..line + 4], REIGNS);
    page[line..line + 4].copy_from_slice(b"NEWS");
    super::super::layout::seal_page(&mut page, HEAD, 0, sections);
    file.write_at(0, &page).unwrap();
    let run = IndexRun::open(&disk, Path::new(PATH)).unwrap();
    assert!(run.reigns().unwrap().is_empty());
    assert_eq!(run.rows.records, 1);
}
