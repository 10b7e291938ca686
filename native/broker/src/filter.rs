//! From a subscription expression to what core filters by. TAG only; SQL92 is refused elsewhere.

use twinmq_core::consume::Filter;

/// Java's `String.hashCode`: over UTF-16 units, wrapping. RocketMQ's tagsCode.
pub(crate) fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

/// Tags of an expression such as `A || B`; `None` = every message; an error when it names none
/// although it is not empty.
pub(crate) fn tags(expression: &str) -> Result<Option<Vec<&str>>, String> {
    let expression = expression.trim();
    if expression.is_empty() || expression == "*" {
        return Ok(None);
    }
    let tags: Vec<&str> = expression
        .split("||")
        .map(str::trim)
        .filter(|tag| !tag.is_empty())
        .collect();
    if tags.is_empty() {
        return Err(format!("no tag in the expression {expression:?}"));
    }
    Ok(Some(tags))
}

/// The filter for an expression.
pub(crate) fn of_expression(expression: &str) -> Result<Filter, String> {
    Ok(match tags(expression)? {
        None => Filter::All,
        Some(tags) => Filter::Tags(tags.into_iter().map(java_hash).collect()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_java_does() {
        assert_eq!(java_hash("TagA"), 2_598_919);
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        // One astral character is two UTF-16 units.
        assert_eq!(java_hash("\u{1F600}"), 0xD83D * 31 + 0xDE00);
    }

    #[test]
    fn expressions() {
        assert_eq!(tags(" * "), Ok(None));
        assert_eq!(tags("a || b||c"), Ok(Some(vec!["a", "b", "c"])));
        assert!(tags("||").is_err());
    }
}
