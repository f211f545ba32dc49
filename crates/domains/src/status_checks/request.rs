//! `{"paymentIds": […]}`, or everything that is wrong with it.

use serde_json::Value;
use tollgate_core::details::{Details, one};
use tollgate_core::id::check_item_id;

/// At most this many payments may be asked about at once.
pub const MAX_PAYMENTS: usize = 10_000;
const FIELD: &str = "paymentIds";
/// At most this many wrong ids are named; the others are as wrong as these.
const MAX_NAMED: usize = 20;

/// The ids as they were sent, duplicates included.
pub fn payment_ids(body: &Value) -> Result<Vec<String>, Details> {
    let Value::Object(fields) = body else {
        return Err(one("body", "must be an object with paymentIds"));
    };
    if let Some(other) = fields.keys().find(|name| *name != FIELD) {
        return Err(one(other, "is unknown; send only paymentIds"));
    }
    let ids = match fields.get(FIELD) {
        None | Some(Value::Null) => return Err(one(FIELD, "must not be empty")),
        Some(Value::Array(ids)) if ids.is_empty() => return Err(one(FIELD, "must not be empty")),
        Some(Value::Array(ids)) if ids.len() > MAX_PAYMENTS => {
            let what = format!("must have at most {MAX_PAYMENTS} items");
            return Err(one(FIELD, what));
        }
        Some(Value::Array(ids)) => ids,
        Some(_) => return Err(one(FIELD, "must be a list of strings")),
    };
    let mut wrong = Details::new();
    let mut good = Vec::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        match judge(id) {
            Ok(id) => good.push(id.to_owned()),
            Err(_) if wrong.len() >= MAX_NAMED => {}
            Err(why) => drop(wrong.insert(format!("{FIELD}[{place}]"), why)),
        }
    }
    if wrong.is_empty() {
        Ok(good)
    } else {
        Err(wrong)
    }
}

fn judge(id: &Value) -> Result<&str, String> {
    let id = id.as_str();
    let id = id.ok_or_else(|| "must be a string".to_owned())?;
    check_item_id(id).map(|()| id)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_good_list_comes_out_as_it_is() {
        let ids = payment_ids(&json!({"paymentIds": ["b", "a", "b"]}));
        assert_eq!(ids.unwrap(), ["b", "a", "b"]);
        let most = json!({"paymentIds": vec!["p"; MAX_PAYMENTS]});
        assert_eq!(payment_ids(&most).unwrap().len(), MAX_PAYMENTS);
    }

    #[track_caller]
    fn assert_wrong(body: &Value, field: &str, why: &str) {
        let wrong = payment_ids(body).unwrap_err();
        let said = wrong.get(field).cloned().unwrap_or_default();
        assert!(said.contains(why), "{field}: {wrong:?}");
    }

    #[test]
    fn whatever_is_wrong_with_the_list_is_named() {
        let too_many = json!(vec!["p"; MAX_PAYMENTS + 1]);
        let table = [
            (json!([]), "paymentIds", "must not be empty"),
            (json!(null), "paymentIds", "must not be empty"),
            (too_many, "paymentIds", "at most 10000"),
            (json!("p"), "paymentIds", "a list of strings"),
            (json!({"0": "p"}), "paymentIds", "a list of strings"),
            (json!(["p", 7]), "paymentIds[1]", "a string"),
            (json!(["p", null]), "paymentIds[1]", "a string"),
            (json!([""]), "paymentIds[0]", "must not be empty"),
            (json!([" "]), "paymentIds[0]", "must start with"),
            (json!([".."]), "paymentIds[0]", "must start with"),
            (json!(["a/b"]), "paymentIds[0]", "may only contain"),
            (json!(["a\r\nb"]), "paymentIds[0]", "may only contain"),
            (json!(["x".repeat(129)]), "paymentIds[0]", "at most 128"),
        ];
        for (ids, field, why) in table {
            assert_wrong(&json!({"paymentIds": ids}), field, why);
        }
    }

    #[test]
    fn whatever_is_wrong_around_the_list_is_named() {
        assert_wrong(&json!({}), "paymentIds", "must not be empty");
        assert_wrong(&json!({"paymentIds": ["p"], "all": true}), "all", "unknown");
        for body in [json!(["p"]), json!(null), json!("p")] {
            assert_wrong(&body, "body", "an object");
        }
    }

    #[test]
    fn not_every_wrong_id_is_named() {
        let wrong = payment_ids(&json!({"paymentIds": vec![""; 5000]})).unwrap_err();
        assert_eq!(wrong.len(), MAX_NAMED);
    }
}
