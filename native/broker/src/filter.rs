//! From a subscription expression to what core filters by. TAG only; SQL92 is refused elsewhere.

use twinmq_core::consume::Filter;
use twinmq_records::message::java_hash;

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
    fn expressions() {
        assert_eq!(tags(" * "), Ok(None));
        assert_eq!(tags("a || b||c"), Ok(Some(vec!["a", "b", "c"])));
        assert!(tags("||").is_err());
        let Ok(Filter::Tags(hashes)) = of_expression("TagA") else {
            panic!("no tags");
        };
        assert_eq!(hashes, [2_598_919]);
    }
}
