//! Requests that are passed on to connected consumers: GET_CONSUMER_RUNNING_INFO (307),
//! CONSUME_MESSAGE_DIRECTLY (309) and INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), which asks each
//! client (221). Answers go back byte for byte; a client that is slow or gone costs its asker
//! `client_call_ms` and nobody else anything.

use crate::error::Refusal;
use crate::members::{Client, Members};
use crate::names;
use std::sync::Arc;
use std::time::Duration;
use twinmq_core::catalog::Catalog;
use twinmq_core::consume::Consuming;
use twinmq_core::groups::Groups;
use twinmq_remoting::code::{request as code, response};
use twinmq_remoting::fields::client::{ConsumeDirectly, ConsumerStatus, RunningInfo};
use twinmq_remoting::{CallError, Command, Outcome, bodies, json};

/// What passing on needs.
#[derive(Debug)]
pub(crate) struct Forwarding {
    pub(crate) members: Arc<Members>,
    pub(crate) groups: Arc<Groups>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) consuming: Arc<Consuming>,
    pub(crate) broker_name: Arc<str>,
    pub(crate) call_limit: Duration,
    /// Most bytes of a message that a client can take.
    pub(crate) message_bytes_max: u32,
}

impl Forwarding {
    /// 223: asks every client of the group, or one, for its positions (221).
    pub(crate) fn status(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ConsumerStatus::read(&request.fields)?;
        let wanted = head.client_addr.filter(|id| !id.is_empty());
        let clients: Vec<Client> = self
            .members
            .group(head.group)
            .map(|group| group.clients.into_values().collect())
            .unwrap_or_default();
        if clients.is_empty() {
            return Err(Refusal::system(format!(
                "No Any Consumer online in the consumer group: [{}]",
                head.group
            )));
        }
        let mut call = Command::request(code::GET_CONSUMER_STATUS_FROM_CLIENT);
        head.write(&mut call.fields);
        let clients: Vec<Client> = clients
            .into_iter()
            .filter(|client| wanted.is_none_or(|id| *client.id == *id))
            .collect();
        let reply = Command::response_to(request, response::SUCCESS);
        let limit = self.call_limit;
        Ok(Outcome::later(async move {
            let mut table = bodies::offset::ConsumerStatus::default();
            for client in clients {
                let answer = client.channel.request(call.clone(), limit).await;
                if let Ok(answer) = answer
                    && answer.code == response::SUCCESS
                    && let Ok(status) = json::read::<bodies::offset::ConsumerStatus>(&answer.body)
                {
                    table
                        .consumer_table
                        .insert(client.id.to_string(), status.message_queue_table);
                }
            }
            Some(reply.with_body(crate::table::encoded(&table)))
        }))
    }

    /// 307, passed on byte for byte.
    pub(crate) fn running_info(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = RunningInfo::read(&request.fields)?;
        let call = request.detached();
        self.pass_on(request, head.consumer_group, head.client_id, call)
    }

    /// 309: the record goes along as the body.
    pub(crate) async fn consume_directly(&self, request: &Command) -> Result<Outcome, Refusal> {
        let head = ConsumeDirectly::read(&request.fields)?;
        let mut call = request.detached();
        call.fields.set("brokerName", &self.broker_name);
        if let Some(topic) = head.topic.and_then(|topic| self.catalog.by_native(topic)) {
            call.fields.put("topicSysFlag", topic.sys_flag);
        }
        if let Some(group) = self.groups.get(head.consumer_group) {
            call.fields.put("groupSysFlag", group.group_sys_flag);
        }
        if let Some(id) = head.msg_id {
            let address = names::address_of_message_id(id)
                .ok_or_else(|| Refusal::parameter(format!("{id} is no offset message id")))?;
            let message = self.consuming.message_at(address).await?;
            call.body = Refusal::unless_framed(message, self.message_bytes_max)?;
        }
        let client = head.client_id.unwrap_or_default();
        self.pass_on(request, head.consumer_group, client, call)
    }

    fn pass_on(
        &self,
        request: &Command,
        group: &str,
        client_id: &str,
        mut call: Command,
    ) -> Result<Outcome, Refusal> {
        let client = self
            .members
            .consumer_channel(group, client_id)
            .ok_or_else(|| {
                Refusal::system(format!("The Consumer <{group}> <{client_id}> not online"))
            })?;
        let mut reply = Command::response_to(request, response::SUCCESS);
        let (limit, who) = (self.call_limit, format!("<{group}> <{client_id}>"));
        call.version = twinmq_remoting::VERSION;
        Ok(Outcome::later(async move {
            match client.channel.request(call, limit).await {
                Ok(answer) => {
                    let answer = answer.detached();
                    reply.code = answer.code;
                    reply.remark = answer.remark;
                    reply.fields = answer.fields;
                    reply.body = answer.body;
                    Some(reply)
                }
                Err(CallError::TimedOut) => {
                    let refusal = Refusal::new(
                        response::CONSUME_MSG_TIMEOUT,
                        format!("consumer {who} Timeout: no answer in {limit:?}"),
                    );
                    Some(crate::table::refused(&reply, refusal))
                }
                Err(error @ (CallError::Closed | CallError::Busy)) => Some(crate::table::refused(
                    &reply,
                    Refusal::system(format!("invoke consumer {who}: {error}")),
                )),
            }
        }))
    }
}
