//! File descriptors: each connection, log file and index run holds one, and the limit a process starts
//! with (its soft limit, often 1,024) is the lower of two.
//!
//! Promises: the soft limit is the hard one before a port is bound; who set a hard limit below what the
//! settings allow is told once. Leaves out what happens at the limit: listeners pause and accept later,
//! the log answers that it has no room for a new file.

use crate::config::NodeConfig;
use crate::node::Role;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors beside those of connections: log files, index runs, listeners.
const FILES: u64 = 4096;

/// A limit that is warned of by nobody: every connection of every listener at once is rare.
const PLENTY: u64 = 65_536;

/// Raises the soft limit to the hard one and warns where even that is less than the settings may need.
pub(crate) fn prepare(config: &NodeConfig, role: Role) {
    match raise() {
        Ok((before, now)) => tracing::debug!(before, now, "file descriptors of the process"),
        Err(error) => tracing::warn!(%error, "the limit of file descriptors cannot be raised"),
    }
    let (limit, needed) = (soft(), needed(config, role));
    if limit < needed.min(PLENTY) {
        tracing::warn!(
            limit,
            needed,
            "fewer file descriptors than all connections (the connections_max keys) and log files may need; \
             raise the hard limit (ulimit -Hn, LimitNOFILE=) or lower connections_max"
        );
    }
}

/// Sets the soft limit to the hard one; the soft limit before and after.
fn raise() -> std::io::Result<(u64, u64)> {
    let limit = getrlimit(Resource::Nofile);
    let before = soft();
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok((before, soft()))
}

/// The soft limit; the highest number where there is none.
fn soft() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What every listener full of connections and a log of some terabytes take.
fn needed(config: &NodeConfig, role: Role) -> u64 {
    let native = 1 + usize::from(config.native.vip);
    let broker = match role {
        Role::All => config
            .native
            .limits
            .connections_max
            .saturating_mul(native)
            .saturating_add(config.kafka.connections_max),
        Role::Nameserver => 0,
    };
    let all = broker.saturating_add(config.nameserver.limits.connections_max);
    FILES.saturating_add(u64::try_from(all).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_soft_limit_is_raised_to_the_hard_one() {
        let limit = getrlimit(Resource::Nofile);
        let low = Rlimit {
            current: Some(128),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, low).expect("lowers the soft limit");
        let (before, now) = raise().expect("raises it");
        assert_eq!((before, now), (128, limit.maximum.unwrap_or(u64::MAX)));
        assert_eq!(getrlimit(Resource::Nofile).maximum, limit.maximum);
        assert_eq!(raise().expect("nothing to do"), (now, now));
    }

    #[test]
    fn every_listener_of_the_role_counts() {
        let mut config = NodeConfig::default();
        config.nameserver.limits.connections_max = 1;
        config.native.limits.connections_max = 10;
        config.kafka.connections_max = 100;
        assert_eq!(needed(&config, Role::All), FILES + 121);
        assert_eq!(needed(&config, Role::Nameserver), FILES + 1);
        config.native.vip = false;
        assert_eq!(needed(&config, Role::All), FILES + 111);
        config.kafka.connections_max = usize::MAX;
        assert_eq!(needed(&config, Role::All), u64::MAX);
    }
}
