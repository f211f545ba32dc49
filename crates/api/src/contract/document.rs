//! The contract: the OpenAPI document, made from the handlers that are served, and a page to read it on.

use std::sync::OnceLock;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_contract::{Needs, ROUTES};
use utoipa::OpenApi;
use utoipa::openapi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::webhooks::{self, PaymentEvent};
use super::words;
use crate::App;
use crate::answer::codes::Code;

const AT: &str = "/openapi.json";
/// What the document calls it.
const TOKEN: &str = "token";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Tollgate",
        description = "Payments dispatcher: sends each payment once, within the bank's rate limit.\n\n\
            JSON in camelCase, times in RFC 3339 and UTC, amounts as decimal strings. Every error is \
            `{\"error\": \"…\", \"code\": \"…\", \"requestId\": \"…\", \"details\": {field: message}}`; the headers \
            `Tollgate-Error-Code` and `X-Request-Id` repeat code and id. After a 503 send the same request \
            again: an id is never paid twice.",
        license(name = "MIT", identifier = "MIT"),
    ),
    servers((url = "/", description = "The server of this document; by default http://127.0.0.1:8090.")),
    tags(
        (name = "payments", description = "Create, query and change payments."),
        (name = "imports", description = "Import files of payments."),
        (name = "status checks", description = "Ask the gateways for the state of payments."),
        (name = "invoices", description = "Customers, invoices and schedules."),
        (name = "lanes", description = "Rate limits per bank: plan, hard limit, pauses, forecasts and certificates."),
        (name = "rules", description = "Rules that refuse payments, and routes that select gateways."),
        (name = "calendars", description = "Opening hours of lanes."),
        (name = "item types", description = "Dispatch settings and the kill switch."),
        (name = "feeds", description = "Topics whose records are imported as payments, and events that are published."),
        (name = "worklists", description = "Items that need a decision: payments and invoices in doubt, dead letters."),
        (name = "jobs", description = "Actions on many items: preview, confirm, follow, stop."),
        (name = "erasures", description = "Erase a person's data from items that have ended."),
        (name = "archive", description = "Ended items, grouped by the day on which they ended: in the database, in files, restored."),
        (name = "accounts", description = "Control totals and the audit log."),
        (name = "service", description = "Health, metrics and this document."),
    ),
    components(schemas(tollgate_contract::Error, Code, PaymentEvent)),
)]
struct Base;

/// Where resources are merged into.
pub(crate) fn base() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi())
}

/// The document as it is served, and kept in `docs/openapi.json`.
pub fn openapi_json() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let document = Document {
            api: with_words(secured(crate::resources().into_openapi())),
            webhooks: webhooks::section(),
        };
        // It consists of strings, lists and maps with string keys: nothing that JSON cannot say.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    })
}

/// utoipa knows no webhooks.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    api: openapi::OpenApi,
    webhooks: serde_json::Value,
}

/// Lists of words have names, so that a generated client has one type for each.
fn with_words(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let components = document.components.get_or_insert_default();
    for (name, words) in words::named() {
        components.schemas.insert(name.to_owned(), words.into());
    }
    document
}

/// Every address asks for a token, except those that ask for nothing.
fn secured(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let mut token = Http::new(HttpAuthScheme::Bearer);
    let made = "A token printed by `tollgate token create`. If no tokens are configured, none is needed and only \
                requests from the same machine are served.";
    token.description = Some(made.to_owned());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(token));
    document.security = Some(vec![SecurityRequirement::new(TOKEN, [""; 0])]);
    let open = ROUTES
        .iter()
        .filter(|(_, _, needs)| *needs == Needs::Nothing);
    for (_, path, _) in open {
        let path = document.paths.paths.get_mut(*path);
        // All of them are GETs.
        if let Some(operation) = path.and_then(|path| path.get.as_mut()) {
            operation.security = Some(vec![]);
        }
    }
    document
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "getOpenApi", tag = "service",
    responses((status = 200, description = "The OpenAPI document.", body = serde_json::Value)),
)]
async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], openapi_json())
}

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(openapi))
}

/// A page for people, at `/docs`; no part of the contract.
pub(crate) fn page() -> Router<App> {
    let page: Router<App> = SwaggerUi::new("/docs").config(Config::from(AT)).into();
    page.layer(map_response(guarded))
}

/// Nothing from elsewhere and in nobody's frame; the page styles itself as it is drawn.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

async fn guarded(mut response: Response) -> Response {
    let policy = HeaderValue::from_static(POLICY);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    fn document() -> Value {
        serde_json::from_str(openapi_json()).unwrap()
    }

    fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap();
            methods
                .iter()
                .map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
    }

    #[test]
    fn openapi_json_in_docs_is_what_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        if std::env::var_os("TGTEST_WRITE").is_some() {
            std::fs::write(path, openapi_json()).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            kept == openapi_json(),
            "docs/openapi.json is stale; write it and look at what changed: \
             TGTEST_WRITE=1 cargo test -p tollgate-api --lib openapi && git diff docs/openapi.json"
        );
    }

    #[test]
    fn the_document_and_the_table_of_access_name_the_same_addresses() {
        let document = document();
        let documented: BTreeSet<String> = operations(&document).map(|(place, _)| place).collect();
        let of_people = |path: &str| path.starts_with("/docs");
        let listed: BTreeSet<String> = ROUTES
            .iter()
            .filter(|(_, path, _)| !of_people(path))
            .map(|(method, path, _)| format!("{} {path}", method.to_ascii_lowercase()))
            .collect();
        assert_eq!(documented, listed);
    }

    #[test]
    fn every_operation_has_a_name_of_its_own_a_tag_and_says_what_it_does() {
        let document = document();
        let mut names = BTreeSet::new();
        for (place, operation) in operations(&document) {
            let name = operation["operationId"].as_str().unwrap_or_default();
            assert!(!name.contains('_'), "{place}: {name}");
            assert!(names.insert(name), "{place}: {name} is used twice");
            assert!(operation["summary"].is_string(), "{place} has no summary");
            assert!(operation["tags"][0].is_string(), "{place} has no tag");
        }
        assert!(names.len() > 25, "{names:?}");
    }

    /// Another contract than ours fixes these two to the letter.
    const OTHERWISE: [(&str, &str); 2] = [
        ("post /payments/check-status 400", "CheckStatusError"),
        (
            "get /payments/check-status/{workflow_id} 404",
            "CheckStatus",
        ),
    ];

    #[test]
    fn what_an_operation_refuses_it_refuses_in_the_one_form_of_errors() {
        let document = document();
        for (place, operation) in operations(&document) {
            let answers = operation["responses"].as_object().unwrap();
            for (status, answer) in answers
                .iter()
                .filter(|(status, _)| *status >= &"400".to_owned())
            {
                let schema = &answer["content"]["application/json"]["schema"]["$ref"];
                let here = format!("{place} {status}");
                let other = OTHERWISE.iter().find(|(place, _)| *place == here);
                let form = other.map_or("Error", |(_, form)| form);
                let form = format!("#/components/schemas/{form}");
                assert_eq!(schema, &form, "{here}");
            }
        }
    }

    #[test]
    fn tags_are_declared_words_have_names_and_free_json_says_so() {
        let document = document();
        let declared = document["tags"].as_array().unwrap();
        let declared: BTreeSet<_> = declared
            .iter()
            .map(|tag| &tag["name"])
            .map(Value::to_string)
            .collect();
        let used = operations(&document).map(|(_, operation)| operation["tags"][0].to_string());
        assert_eq!(used.collect::<BTreeSet<_>>(), declared);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for (name, schema) in schemas {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (field, schema) in properties {
                let here = format!("{name}.{field}");
                let words = schema["enum"].as_array().map_or(0, Vec::len);
                assert!(words < 2, "{here}: give these words a name in words.rs");
                let is_free =
                    schema["type"].to_string().contains("object") && schema["properties"].is_null();
                let says = !schema["additionalProperties"].is_null();
                assert!(!is_free || says, "{here}: say what it may hold");
            }
        }
    }

    #[test]
    fn an_operation_has_one_type_of_success() {
        let document = document();
        for (place, operation) in operations(&document) {
            let answers = operation["responses"].as_object().unwrap();
            let successes = answers.iter().filter(|(status, _)| status.starts_with('2'));
            let types: BTreeSet<_> = successes
                .map(|(_, answer)| &answer["content"]["application/json"]["schema"])
                .filter(|schema| !schema.is_null())
                .map(Value::to_string)
                .collect();
            assert!(types.len() < 2, "{place}: {types:?}");
        }
    }

    #[test]
    fn what_needs_a_token_says_so() {
        let document = document();
        let guarded = ROUTES
            .iter()
            .filter(|(_, _, needs)| *needs != Needs::Nothing);
        for (method, path, _) in guarded {
            let answers = &document["paths"][path][method.to_ascii_lowercase()]["responses"];
            for status in ["401", "403"] {
                assert!(answers[status].is_object(), "{method} {path} {status}");
            }
        }
    }

    #[test]
    fn every_operation_asks_for_a_token_unless_its_address_needs_nothing() {
        let document = document();
        assert_eq!(document["security"], json!([{"token": []}]));
        let scheme = &document["components"]["securitySchemes"]["token"];
        assert_eq!(
            (&scheme["type"], &scheme["scheme"]),
            (&json!("http"), &json!("bearer"))
        );
        for (method, path, needs) in ROUTES {
            let operation = &document["paths"][path][method.to_ascii_lowercase()];
            let expected = match needs {
                _ if path.starts_with("/docs") => Value::Null,
                Needs::Nothing => json!([]),
                Needs::AnyRole | Needs::Ingest | Needs::Read | Needs::Operate => Value::Null,
            };
            assert_eq!(operation["security"], expected, "{method} {path}");
        }
    }

    #[test]
    fn what_takes_a_body_says_what_it_does_with_a_wrong_one() {
        let document = document();
        let with_body =
            operations(&document).filter(|(_, operation)| operation["requestBody"].is_object());
        for (place, operation) in with_body {
            for status in ["400", "413", "415"] {
                assert!(
                    operation["responses"][status].is_object(),
                    "{place} {status}"
                );
            }
        }
    }
}
