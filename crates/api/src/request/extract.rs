//! Path and query as types; what does not fit is told in the one form of errors.

use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::body::wrong;
use crate::answer::error::ApiError;

pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let found = AxumPath::from_request_parts(parts, state).await;
        let AxumPath(found) = found.map_err(|why| wrong("path", why.body_text()))?;
        Ok(Self(found))
    }
}

pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let asked = AxumQuery::from_request_parts(parts, state).await;
        let AxumQuery(asked) = asked.map_err(|why| wrong("query", why.body_text()))?;
        Ok(Self(asked))
    }
}
