//! `POST /customers` and `GET /customers/{id}`: who invoices are for.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tollgate_core::id::check_item_id;
use tollgate_core::ports::Author;
use tollgate_domains::invoices::Customer;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::Body;
use super::error::{ApiError, json_body};
use super::extract::Path;
use super::refusals::{Changes, Finds};
use super::{App, words};
use crate::auth::Caller;

/// Who invoices are for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Customer, example = json!({"customerId": "c_1", "currency": "DKK", "timeZone": "Europe/Copenhagen"}))]
struct CustomerBody {
    #[schema(schema_with = words::id)]
    customer_id: String,
    /// An ISO 4217 code: what its invoices are in.
    #[schema(pattern = "^[A-Z]{3}$")]
    currency: String,
    /// An IANA zone: where its months begin, unless a schedule says otherwise.
    time_zone: String,
    /// How long after each decline the next charge follows, such as `1d` or `12h`; as configured for
    /// all if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    ladder: Option<Vec<String>>,
}

impl From<Customer> for CustomerBody {
    fn from(customer: Customer) -> Self {
        Self {
            customer_id: customer.customer_id,
            currency: customer.currency.code().to_owned(),
            time_zone: customer.time_zone,
            ladder: customer.ladder.map(Into::into),
        }
    }
}

/// Makes a customer known. The same again changes nothing.
#[utoipa::path(
    post, path = "/customers", operation_id = "createCustomer", tag = "invoices",
    request_body = CustomerBody,
    responses(
        (status = 201, description = "Known from now on.", body = CustomerBody),
        (status = 200, description = "Known already, with the same content.", body = CustomerBody),
        Changes,
    ),
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body)?;
    let customer = Customer::parse(&body).map_err(ApiError::invalid)?;
    let author = Author::new(caller.name(), "a new customer");
    let is_new = app.billing.customers().create(&customer, author).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(CustomerBody::from(customer))).into_response())
}

/// One customer.
#[utoipa::path(
    get, path = "/customers/{id}", operation_id = "getCustomer", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1")),
    responses((status = 200, description = "The customer.", body = CustomerBody), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<CustomerBody>, ApiError> {
    let missing = || ApiError::not_found(format!("there is no customer {id}"));
    check_item_id(&id).map_err(|_| missing())?;
    let customer = app.billing.customers().get(&id).await?;
    Ok(Json(customer.ok_or_else(missing)?.into()))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
}
