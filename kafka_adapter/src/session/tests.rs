//! The table of KIP-227, row by row.

use super::*;
use twinmq_metrics::{Registry, StageMetrics};

fn sessions(max: usize) -> Sessions {
    let registry = Registry::new();
    let stages = StageMetrics::register(&registry).unwrap();
    let metrics = KafkaMetrics::register(&registry, &stages).unwrap();
    let config = KafkaConfig {
        fetch_sessions_max: max,
        ..KafkaConfig::default()
    };
    Sessions::new(&config, &metrics)
}

fn want(partition: i32) -> Want {
    Want {
        topic: TopicRef::Name(Arc::from("t")),
        partition,
        offset: 0,
        bytes_max: 1,
        current_epoch: -1,
        last_epoch: -1,
    }
}

fn seen(high_watermark: i64) -> Seen {
    Seen {
        error: 0,
        high_watermark,
        log_start: 0,
        records: false,
        diverging: false,
    }
}

fn asked(id: i32, epoch: i32, wants: Vec<Want>) -> Asked {
    Asked {
        id,
        epoch,
        by_id: false,
        wants,
        forgotten: Vec::new(),
    }
}

#[test]
fn an_incremental_fetch_tells_only_what_changed() {
    let all = sessions(10);
    let Plan::Full(wants) = all.plan(asked(0, 0, vec![want(0), want(1)]), 0).unwrap() else {
        panic!("a full fetch");
    };
    let id = all.open(wants, &[seen(5), seen(5)], false, 0);
    let Plan::Incremental { epoch, wants, .. } = all.plan(asked(id, 1, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    assert_eq!(epoch, 2);
    assert_eq!(
        all.changed(id, epoch, &wants, &[seen(5), seen(6)]).unwrap(),
        [false, true]
    );
    // An error is told every time, and the success after it too.
    let Plan::Incremental { epoch, wants, .. } = all.plan(asked(id, 2, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    let broken = Seen {
        error: 3,
        ..seen(5)
    };
    assert_eq!(
        all.changed(id, epoch, &wants, &[broken, seen(6)]).unwrap(),
        [true, false]
    );
    let Plan::Incremental { epoch, wants, .. } = all.plan(asked(id, 3, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    assert_eq!(
        all.changed(id, epoch, &wants, &[seen(5), seen(6)]).unwrap(),
        [true, false]
    );
    // What delivered goes to the end of the order.
    let Plan::Incremental { epoch, wants, .. } = all.plan(asked(id, 4, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    let full = Seen {
        records: true,
        ..seen(7)
    };
    all.changed(id, epoch, &wants, &[full, seen(6)]).unwrap();
    let Plan::Incremental { wants, .. } = all.plan(asked(id, 5, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    assert_eq!(
        wants.iter().map(|want| want.partition).collect::<Vec<_>>(),
        [1, 0]
    );
}

#[test]
fn epochs_and_ids_follow_the_table() {
    let all = sessions(10);
    let id = all.open(vec![want(0)], &[seen(1)], false, 0);
    assert!(id > 0);
    let error = |asked: Asked| all.plan(asked, 1).unwrap_err();
    assert_eq!(
        error(asked(id + 1, 1, vec![])),
        ResponseError::FetchSessionIdNotFound
    );
    assert_eq!(
        error(asked(0, 1, vec![])),
        ResponseError::FetchSessionIdNotFound
    );
    assert_eq!(
        error(asked(id, 2, vec![])),
        ResponseError::InvalidFetchSessionEpoch
    );
    let by_id = Asked {
        by_id: true,
        ..asked(id, 1, vec![])
    };
    assert_eq!(error(by_id), ResponseError::FetchSessionTopicIdError);
    // A parked request that was overtaken.
    let Plan::Incremental { epoch, wants, .. } = all.plan(asked(id, 1, vec![]), 1).unwrap() else {
        panic!("incremental");
    };
    all.plan(asked(id, 2, vec![]), 1).unwrap();
    assert_eq!(
        all.changed(id, epoch, &wants, &[seen(1)]).unwrap_err(),
        ResponseError::InvalidFetchSessionEpoch
    );
    // Nothing left to fetch closes it.
    let last = Asked {
        forgotten: vec![want(0).key()],
        ..asked(id, 3, vec![])
    };
    assert!(matches!(all.plan(last, 1).unwrap(), Plan::Sessionless(wants) if wants.is_empty()));
    assert_eq!(
        error(asked(id, 4, vec![])),
        ResponseError::FetchSessionIdNotFound
    );
    assert_eq!(all.metrics.fetch_session_partitions.get(), 0);
}

#[test]
fn a_full_cache_evicts_the_idle_then_the_old_and_small() {
    let all = sessions(2);
    let small = all.open(vec![want(0)], &[seen(1)], false, 0);
    let large = all.open(vec![want(0), want(1)], &[seen(1); 2], false, 0);
    assert_eq!(
        all.open(vec![want(0), want(1)], &[seen(1); 2], false, 10),
        0,
        "too young"
    );
    all.plan(asked(small, 1, vec![]), 120_001).unwrap();
    all.plan(asked(large, 1, vec![]), 120_001).unwrap();
    assert_eq!(
        all.open(vec![want(0)], &[seen(1)], false, 120_001),
        0,
        "not larger"
    );
    assert!(all.open(vec![want(0), want(1)], &[seen(1); 2], false, 120_001) > 0);
    assert!(all.plan(asked(small, 2, vec![]), 120_001).is_err());
    assert!(
        all.open(vec![want(0)], &[seen(1)], false, 360_000) > 0,
        "idle"
    );
}
