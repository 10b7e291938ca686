//! The broker itself: UPDATE_BROKER_CONFIG (25), GET_BROKER_CONFIG (26), GET_BROKER_RUNTIME_INFO (28),
//! GET_BROKER_HA_STATUS (907).
//! Settings are read-only here; they are changed in the configuration file.

use crate::error::Refusal;
use crate::registration;
use crate::tallies::{Rates, Tallies};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use twinmq_core::catalog::Catalog;
use twinmq_remoting::bodies::KvTable;
use twinmq_remoting::code::response;
use twinmq_remoting::{Command, Outcome};
use twinmq_store::Store;

/// What administration needs.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) store: Store,
    pub(crate) tallies: Arc<Tallies>,
    /// The settings as RocketMQ names them.
    pub(crate) settings: BTreeMap<&'static str, String>,
    pub(crate) boot_ms: i64,
}

impl Admin {
    /// 25: Unknown keys are ignored, as by Apache; known ones cannot be changed while it runs.
    pub(crate) fn update_config(&self, request: &Command) -> Result<Outcome, Refusal> {
        let text = std::str::from_utf8(&request.body)
            .map_err(|_| Refusal::parameter("the body is no text"))?;
        for line in text.lines().map(str::trim) {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let known = self.settings.get(key.trim());
            if known.is_some_and(|held| held != value.trim()) {
                return Err(Refusal::new(
                    response::NO_PERMISSION,
                    format!(
                        "{} cannot be changed while the broker runs; change it in its configuration file",
                        key.trim()
                    ),
                ));
            }
        }
        Ok(crate::table::done(request))
    }

    /// Code 26.
    pub(crate) fn config(&self, request: &Command) -> Result<Outcome, Refusal> {
        let mut text = String::new();
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key}={value}");
        }
        let version = crate::table::encoded(&registration::data_version(&self.catalog));
        let reply = Command::response_to(request, response::SUCCESS)
            .with_field("version", String::from_utf8_lossy(&version))
            .with_body(text);
        Ok(Outcome::Reply(reply))
    }

    /// 907: a master without replicas.
    pub(crate) fn ha_status(&self, request: &Command) -> Result<Outcome, Refusal> {
        let body = serde_json::json!({
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": true,
            "masterCommitLogMaxOffset": self.store.progress().written.0,
        });
        Ok(crate::table::json(request, &body))
    }

    /// 28: Every key that the exporter, the dashboard and mqadmin read; those that have no
    /// counterpart here (thread pools, transient buffers, latencies) are zero.
    pub(crate) async fn runtime_info(&self, request: &Command) -> Result<Outcome, Refusal> {
        let now_ms = crate::now_ms();
        let mut table = BTreeMap::new();
        let mut put = |key: &str, value: String| {
            table.insert(key.to_owned(), value);
        };
        self.identity(&mut put, now_ms);
        self.traffic(&mut put, now_ms);
        let earliest = self.store.earliest().await.map_err(Refusal::from)?;
        put(
            "earliestMessageTimeStamp",
            earliest.map_or(-1, |time| time.0).to_string(),
        );
        self.log(&mut put);
        for pool in ["send", "pull", "litePull", "query", "ack"] {
            put(&format!("{pool}ThreadPoolQueueSize"), "0".to_owned());
            put(&format!("{pool}ThreadPoolQueueCapacity"), "0".to_owned());
            put(
                &format!("{pool}ThreadPoolQueueHeadWaitTimeMills"),
                "0".to_owned(),
            );
        }
        for (key, value) in [
            ("EndTransactionQueueSize", "0"),
            ("EndTransactionThreadPoolQueueCapacity", "0"),
            ("dispatchMaxBuffer", "0"),
            ("dispatchBehindBytes", "0"),
            ("pageCacheLockTimeMills", "0"),
            ("timerReadBehind", "0"),
            ("timerOffsetBehind", "0"),
            ("timerCongestNum", "0"),
            ("timerEnqueueTps", "0.0"),
            ("timerDequeueTps", "0.0"),
            ("remainTransientStoreBufferNumbs", "0"),
            ("remainHowManyDataToCommit", "0 B"),
        ] {
            put(key, value.to_owned());
        }
        Ok(crate::table::json(request, &KvTable { table }))
    }

    fn identity(&self, put: &mut impl FnMut(&str, String), now_ms: i64) {
        put("bootTimestamp", self.boot_ms.to_string());
        put("startAcceptSendRequestTimeStamp", "0".to_owned());
        put("runtime", runtime((now_ms - self.boot_ms).max(0) / 1000));
        put("brokerActive", "true".to_owned());
        put("brokerVersionDesc", "V5_3_3".to_owned());
        put("brokerVersion", twinmq_remoting::VERSION.to_string());
    }

    fn traffic(&self, put: &mut impl FnMut(&str, String), now_ms: i64) {
        let messages = self.tallies.put_total.messages.load(Ordering::Relaxed);
        let bytes = self.tallies.put_total.bytes.load(Ordering::Relaxed);
        let got = self.tallies.got_total.messages.load(Ordering::Relaxed);
        let [puts, found, missed, all, sent] = self.tallies.rates(now_ms);
        put("putTps", three(puts));
        put("getFoundTps", three(found));
        put("getMissTps", three(missed));
        put("getTotalTps", three(all));
        put("getTransferredTps", three(sent));
        put("getTransferedTps", three(sent));
        put("putMessageTimesTotal", messages.max(1).to_string());
        put("putMessageSizeTotal", bytes.to_string());
        put("putMessageFailedTimes", self.tallies.failures().to_string());
        #[expect(clippy::cast_precision_loss, reason = "an average for people")]
        let average = bytes as f64 / messages.max(1) as f64;
        put("putMessageAverageSize", format!("{average:.1}"));
        put("putMessageEntireTimeMax", "0".to_owned());
        put("getMessageEntireTimeMax", "0".to_owned());
        put("putLatency99", "0.00".to_owned());
        put("putLatency999", "0.00".to_owned());
        put(
            "putMessageDistributeTime",
            "[<=0ms]:0 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 ".to_owned(),
        );
        for (kind, now) in [("Put", messages), ("Get", got)] {
            put(&format!("msg{kind}TotalYesterdayMorning"), "0".to_owned());
            put(&format!("msg{kind}TotalTodayMorning"), "0".to_owned());
            put(&format!("msg{kind}TotalTodayNow"), now.to_string());
        }
    }

    fn log(&self, put: &mut impl FnMut(&str, String)) {
        let progress = self.store.progress();
        let used = self.store.disk_used();
        put("commitLogMinOffset", progress.head.0.to_string());
        put("commitLogMaxOffset", progress.written.0.to_string());
        put("commitLogDiskRatio", format!("{used:.4}"));
        put("consumeQueueDiskRatio", format!("{used:.4}"));
        put(
            "remainHowManyDataToFlush",
            people(progress.written.0.saturating_sub(progress.synced.0)),
        );
        let (total, free) = self.store.disk_bytes().unwrap_or_default();
        put(
            "commitLogDirCapacity",
            format!("Total : {}, Free : {}.", people(total), people(free)),
        );
    }
}

fn three(rates: Rates) -> String {
    format!("{} {} {}", rates[0], rates[1], rates[2])
}

fn runtime(seconds: i64) -> String {
    format!(
        "[ {} days, {} hours, {} minutes, {} seconds ]",
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Bytes as RocketMQ's tools print and parse them.
fn people(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_the_exporter_splits_them() {
        assert_eq!(people(0), "0 B");
        assert_eq!(people(1536), "1.5 KiB");
        assert_eq!(people(3 << 40), "3.0 TiB");
        assert_eq!(runtime(93_784), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
        assert_eq!(three([1.0, 0.5, 0.25]), "1 0.5 0.25");
    }
}
