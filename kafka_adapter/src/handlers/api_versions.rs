//! ApiVersions v0-v4: what is answered, printed from the table. Served before anything else.
//!
//! A version that is too high is answered in the v0 layout with error 35 and the one entry a client
//! needs to try again (KIP-511); the response header is v0 whatever the version.

use crate::error::Close;
use crate::frame::Request;
use crate::output::Answer;
use crate::serve::Front;
use crate::table::{self, APIS, Api};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

/// Kafka's `metadata.version` levels that this broker's answers correspond to: 3.3 to 4.0.
const METADATA_VERSION: (i16, i16) = (7, 25);

pub(crate) fn handle(front: &Front, request: &Request) -> Result<Answer, Close> {
    let own = APIS
        .iter()
        .find(|api| api.key == ApiKey::ApiVersions as i16);
    let highest = own.map_or(0, |api| api.highest);
    let version = request.version;
    if version > highest {
        let response = ApiVersionsResponse::default()
            .with_error_code(ResponseError::UnsupportedVersion.code())
            .with_api_keys(own.map(entry).into_iter().collect());
        return table::encode(&response, 0, 0, request.correlation);
    }
    let decoded: ApiVersionsRequest = table::decode(front, request)?;
    let named = legal(&decoded.client_software_name) && legal(&decoded.client_software_version);
    let response = if version >= 3 && !named {
        ApiVersionsResponse::default().with_error_code(ResponseError::InvalidRequest.code())
    } else {
        list(version)
    };
    table::encode(&response, version, 0, request.correlation)
}

fn list(version: i16) -> ApiVersionsResponse {
    let mut keys: Vec<ApiVersion> = APIS.iter().map(entry).collect();
    keys.sort_by_key(|api| api.api_key);
    let response = ApiVersionsResponse::default().with_api_keys(keys);
    if version < 3 {
        return response;
    }
    let name = StrBytes::from_static_str("metadata.version");
    let (lowest, highest) = METADATA_VERSION;
    response
        .with_supported_features(vec![
            SupportedFeatureKey::default()
                .with_name(name.clone())
                .with_min_version(lowest)
                .with_max_version(highest),
        ])
        .with_finalized_features_epoch(0)
        .with_finalized_features(vec![
            FinalizedFeatureKey::default()
                .with_name(name)
                .with_min_version_level(highest)
                .with_max_version_level(highest),
        ])
}

fn entry(api: &Api) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(api.key)
        .with_min_version(api.shown_lowest)
        .with_max_version(api.highest)
}

/// KIP-511: alphanumeric at both ends, `-` and `.` between.
fn legal(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kip_511() {
        for (text, fine) in [
            ("librdkafka", true),
            ("2.3.0-RC1", true),
            ("a", true),
            ("", false),
            ("-a", false),
            ("a b", false),
        ] {
            assert_eq!(legal(text), fine, "{text}");
        }
    }
}
