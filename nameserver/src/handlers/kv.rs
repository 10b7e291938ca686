//! KV config (100-102, 219) and the settings as text (319).

use super::ok;
use crate::error::{KvError, RouteError};
use crate::kv::Kv;
use crate::server::State;
use std::fmt::Write;
use std::sync::Arc;
use twinmq_remoting::bodies::KvTable;
use twinmq_remoting::fields::route::{KvOf, NamespaceIs, PutKv};
use twinmq_remoting::{Command, json};

/// 100.
pub(crate) async fn put(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let PutKv {
        namespace,
        key,
        value,
    } = PutKv::read(&asked.fields)?;
    let (namespace, key, value) = (namespace.to_owned(), key.to_owned(), value.to_owned());
    store(state, move |kv| kv.put(&namespace, &key, &value)).await?;
    Ok(ok(asked))
}

/// 101.
pub(crate) fn get(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let KvOf { namespace, key } = KvOf::read(&asked.fields)?;
    let missing = || RouteError::NoEntry {
        namespace: namespace.to_owned(),
        key: key.to_owned(),
    };
    let value = state.kv.get(namespace, key).ok_or_else(missing)?;
    Ok(ok(asked).with_field("value", value))
}

/// 102.
pub(crate) async fn delete(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let KvOf { namespace, key } = KvOf::read(&asked.fields)?;
    let (namespace, key) = (namespace.to_owned(), key.to_owned());
    store(state, move |kv| kv.delete(&namespace, &key)).await?;
    Ok(ok(asked))
}

/// 219.
pub(crate) fn list(state: &State, asked: &Command) -> Result<Command, RouteError> {
    let NamespaceIs { namespace } = NamespaceIs::read(&asked.fields)?;
    let table = state.kv.namespace(namespace);
    let table = table.ok_or_else(|| RouteError::NoNamespace(namespace.to_owned()))?;
    Ok(ok(asked).with_body(json::write(&KvTable { table })))
}

/// 319: `key=value` lines, in RocketMQ's names where it has one.
pub(crate) fn settings(state: &State, asked: &Command) -> Command {
    let config = &state.config;
    let mut text = String::new();
    let _ = writeln!(text, "listenPort={}", state.port);
    let _ = writeln!(text, "kvConfigPath={}", config.kv_path.display());
    let _ = writeln!(text, "orderMessageEnable={}", config.order_topics);
    let _ = writeln!(
        text,
        "scanNotActiveBrokerInterval={}",
        config.scan().as_millis()
    );
    let _ = writeln!(
        text,
        "serverChannelMaxIdleTimeSeconds={}",
        config.limits.idle_seconds_max
    );
    ok(asked).with_body(text)
}

/// The disk is waited for off the runtime's threads.
async fn store(
    state: &State,
    change: impl FnOnce(&Kv) -> Result<(), KvError> + Send + 'static,
) -> Result<(), RouteError> {
    let kv = Arc::clone(&state.kv);
    let stored = tokio::task::spawn_blocking(move || change(&kv)).await;
    Ok(stored.unwrap_or(Err(KvError::Stopped))?)
}
