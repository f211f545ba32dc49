//! `/customers`: who invoices are for.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use tollgate_contract as contract;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::ports::Author;
use tollgate_core::retention::Floor;
use tollgate_domains::invoices::{self, Customer};
use tollgate_operations::ages;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::answer::error::{ApiError, json_body};
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds, Reads};
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::{Body, after_id, perhaps_because, wrong};
use crate::request::extract::{Path, Query};
use crate::request::page;

impl Of<Customer> for contract::Customer {
    fn of(customer: Customer) -> Self {
        Self {
            customer_id: customer.customer_id,
            currency: customer.currency.code().to_owned(),
            time_zone: customer.time_zone,
            ladder: customer.ladder.map(Into::into),
        }
    }
}

/// Creates a customer. Repeating the same request changes nothing.
#[utoipa::path(
    post, path = "/customers", operation_id = "createCustomer", tag = "invoices",
    request_body = contract::Customer,
    responses(
        (status = 201, description = "Created.", body = contract::Customer),
        (status = 200, description = "Already exists with the same content.", body = contract::Customer),
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
    app.fits_hot_days(&customer).await?;
    let is_new = app.billing.customers().create(&customer, author).await?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(contract::Customer::of(customer))).into_response())
}

/// Changes a customer. Queued invoices keep their time.
///
/// 409 if the currency changes while the customer has outstanding invoices.
#[utoipa::path(
    put, path = "/customers/{id}", operation_id = "changeCustomer", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1")),
    request_body = contract::CustomerChange,
    responses((status = 200, description = "The changed customer.", body = contract::Customer), Changes),
)]
async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Customer>, ApiError> {
    let (customer, reason) = changed(id, json_body(&headers, body)?)?;
    let author = perhaps_because(&caller, reason)?;
    app.fits_hot_days(&customer).await?;
    app.billing.customers().change(&customer, author).await?;
    app.acted(caller.name(), "customer changed", &customer.customer_id);
    Ok(Json(contract::Customer::of(customer)))
}

impl App {
    /// An invoice that ended may still be charged again by its customer's schedule.
    async fn fits_hot_days(&self, customer: &Customer) -> Result<(), ApiError> {
        let of = self.retention_of(&invoices::item_type())?;
        let floors: Vec<Floor> = ages::of_customer(customer).into_iter().collect();
        match ages::too_long(&*self.store, of, &floors).await? {
            Some(why) => Err(wrong("ladder", why)),
            None => Ok(()),
        }
    }
}

/// The id is the address's; the domain reads the rest field by field.
fn changed(id: String, mut body: Value) -> Result<(Customer, Option<String>), ApiError> {
    let mut reason = Value::Null;
    if let Value::Object(fields) = &mut body {
        reason = fields.remove("reason").unwrap_or_default();
        if fields.contains_key("customerId") {
            return Err(wrong(
                "customerId",
                "is part of the path and cannot be changed",
            ));
        }
        check_item_id(&id).map_err(|_| missing(&id))?;
        fields.insert("customerId".to_owned(), Value::String(id));
    }
    let customer = Customer::parse(&body);
    match (customer, reason) {
        (Ok(customer), Value::String(reason)) => Ok((customer, Some(reason))),
        (Ok(customer), Value::Null) => Ok((customer, None)),
        (Err(details), Value::String(_) | Value::Null) => Err(ApiError::invalid(details)),
        (customer, _) => {
            let mut details = customer.err().unwrap_or_default();
            details.insert("reason".to_owned(), "must be a string".to_owned());
            Err(ApiError::invalid(details))
        }
    }
}

fn missing(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no customer {id}"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists customers, paged.
#[utoipa::path(
    get, path = "/customers", operation_id = "listCustomers", tag = "invoices",
    params(ListQuery),
    responses((status = 200, description = "One page, sorted by id.", body = contract::CustomerList), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<contract::CustomerList>, ApiError> {
    let after = query.after.map(after_id).transpose()?;
    let after = after.as_ref().map(ItemId::as_str);
    let limit = page::limit(query.limit)?;
    let page = app.billing.customers().list(after, limit).await?;
    Ok(Json(contract::CustomerList {
        customers: page.items.into_iter().map(contract::Customer::of).collect(),
        next: page.next,
    }))
}

/// One customer.
#[utoipa::path(
    get, path = "/customers/{id}", operation_id = "getCustomer", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1")),
    responses((status = 200, description = "The customer.", body = contract::Customer), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<contract::Customer>, ApiError> {
    check_item_id(&id).map_err(|_| missing(&id))?;
    let customer = app.billing.customers().get(&id).await?;
    let customer = customer.ok_or_else(|| missing(&id))?;
    Ok(Json(contract::Customer::of(customer)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(show, change))
}
