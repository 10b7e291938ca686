//! Header fields as numbers and texts, with the error that names the field.

use twinmq_remoting::{FieldError, Fields};

fn bad(field: &'static str, value: Option<&str>) -> FieldError {
    FieldError {
        field,
        value: value.map(|value| value.chars().take(64).collect()),
    }
}

/// A text that must be there.
pub(crate) fn text<'a>(fields: &'a Fields, name: &'static str) -> Result<&'a str, FieldError> {
    fields.get(name).ok_or_else(|| bad(name, None))
}

/// A number that must be there.
pub(crate) fn number<T: std::str::FromStr>(
    fields: &Fields,
    name: &'static str,
) -> Result<T, FieldError> {
    let value = text(fields, name)?;
    value.trim().parse().map_err(|_| bad(name, Some(value)))
}

/// A number that may be missing.
pub(crate) fn maybe_number<T: std::str::FromStr>(
    fields: &Fields,
    name: &'static str,
) -> Result<Option<T>, FieldError> {
    match fields.get(name) {
        None => Ok(None),
        Some(value) if value.is_empty() || value == "null" => Ok(None),
        Some(value) => match value.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(bad(name, Some(value))),
        },
    }
}

/// A truth value; missing or anything but `true` is false, as Java's `Boolean.parseBoolean`.
pub(crate) fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// A text that may be missing; an empty one counts as missing.
pub(crate) fn maybe_text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).filter(|value| !value.is_empty())
}
