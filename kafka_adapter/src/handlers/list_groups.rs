//! ListGroups v0-v5: Kafka groups, groups that only committed, and groups of RocketMQ consumers; all
//! are of the type "classic". Filters by state (v4) and type (v5).

use crate::error::Close;
use crate::group::Coordinator;
use crate::group::view::Listing;
use crate::handlers::text;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

const CLASSIC: &str = "classic";

pub(crate) async fn handle(
    coordinator: &Coordinator,
    request: ListGroupsRequest,
    version: i16,
) -> Result<ListGroupsResponse, Close> {
    let groups = coordinator
        .list()
        .into_iter()
        .filter(|group| passes(&request.states_filter, group.state))
        .filter(|_| passes(&request.types_filter, CLASSIC))
        .map(|group| listed(&group, version));
    Ok(ListGroupsResponse::default().with_groups(groups.collect()))
}

/// An empty filter lets everything pass; case does not matter.
fn passes(filter: &[StrBytes], value: &str) -> bool {
    filter.is_empty()
        || filter
            .iter()
            .any(|wanted| wanted.eq_ignore_ascii_case(value))
}

fn listed(group: &Listing, version: i16) -> ListedGroup {
    let listed = ListedGroup::default()
        .with_group_id(GroupId(text::wire(&group.name)))
        .with_protocol_type(text::wire(&group.protocol_type));
    match version {
        ..=3 => listed,
        4 => listed.with_group_state(StrBytes::from_static_str(group.state)),
        _ => listed
            .with_group_state(StrBytes::from_static_str(group.state))
            .with_group_type(StrBytes::from_static_str(CLASSIC)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::protocol::Encodable;

    #[test]
    fn filters_ignore_case_and_unknown_values_match_nothing() {
        let filter = [StrBytes::from_static_str("STABLE")];
        assert!(passes(&filter, "Stable") && !passes(&filter, "Empty") && passes(&[], "Empty"));
        assert!(!passes(&[StrBytes::from_static_str("share")], CLASSIC));
    }

    #[test]
    fn every_version_can_carry_a_group() {
        let group = Listing {
            name: "g".into(),
            protocol_type: "consumer".into(),
            state: "Stable",
        };
        for version in 0..=5 {
            let answer = ListGroupsResponse::default().with_groups(vec![listed(&group, version)]);
            answer.encode(&mut BytesMut::new(), version).unwrap();
        }
    }
}
