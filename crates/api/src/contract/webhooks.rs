//! The webhooks that Tollgate sends, for the document. The domain writes them (`notifications/news.rs`); a
//! test here keeps the two together.

use serde_json::{Value, json};
use tollgate_core::Timestamp;
use tollgate_domains::notifications::Event;
use utoipa::ToSchema;

use super::words;

/// Webhook about a payment, signed as specified by Standard Webhooks.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct PaymentEvent {
    /// Name of the event.
    #[schema(example = "payment.processing")]
    r#type: String,
    /// Time of the event.
    timestamp: Timestamp,
    data: PaymentEventData,
}

/// The payment that a webhook is about.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
struct PaymentEventData {
    #[schema(example = "pay_001")]
    payment_id: String,
    #[schema(schema_with = words::payment_status)]
    status: String,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: String,
    #[schema(example = "default")]
    gateway: String,
    #[schema(example = "invoice 42")]
    reference: Option<String>,
}

/// The document's `webhooks`.
pub(super) fn section() -> Value {
    let described = Event::ALL.map(|event| (event.name().to_owned(), described(event)));
    Value::Object(described.into_iter().collect())
}

fn described(event: Event) -> Value {
    let (operation, summary) = match event {
        Event::Processing => ("paymentProcessing", "The bank has accepted a payment."),
        Event::Rejected => ("paymentRejected", "The bank has refused a payment."),
    };
    let header = |name: &str, description: &str| {
        json!({
            "name": name, "in": "header", "required": true, "description": description,
            "schema": {"type": "string"}
        })
    };
    json!({"post": {
        "operationId": operation,
        "tags": ["payments"],
        "summary": summary,
        "description": "Sent to every URL of `downstream.notifications.urls`. May arrive more than once, always with the same `webhook-id`.",
        "parameters": [
            header("webhook-id", "Id of the webhook; the same for every repeat."),
            header("webhook-timestamp", "Time of the send, in seconds since 1970."),
            header("webhook-signature", "Signatures, one per secret."),
        ],
        "requestBody": {"required": true, "content": {"application/json": {
            "schema": {"$ref": "#/components/schemas/PaymentEvent"}
        }}},
        "responses": {
            "2XX": {"description": "Acknowledged."},
            "410": {"description": "Unsubscribed: this webhook is not sent again."},
            "default": {"description": "Not acknowledged: Tollgate retries for three days."},
        },
    }})
}
