//! The client: requests to any address of the API. Each resource has its typed methods in a file of its own.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Full;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::Builder;
use crate::connection::{Connector, Reply};
use crate::file::FileBody;
use crate::{Answer, Error};

const JSON: &str = "application/json";

/// A client of one server. Copies are cheap and share their settings.
///
/// Every call opens a connection of its own.
#[derive(Clone)]
pub struct Client {
    pub(crate) connector: Arc<Connector>,
}

/// Without the token.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("host", &self.connector.host)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at this address, such as `https://tollgate.example:8090`.
    pub fn builder(address: &str) -> Builder {
        Builder::new(address)
    }

    /// Gets any address of the API, such as `/admin/now`. Escape ids in it with [`quoted`](crate::quoted).
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Error> {
        let reply = self.call(Method::GET, path, None, Bytes::new()).await?;
        Answer::read(reply.status, reply.text)
    }

    /// Gets an address that answers with text or an image.
    pub async fn get_text(&self, path: &str) -> Result<String, Error> {
        let reply = self.call(Method::GET, path, None, Bytes::new()).await?;
        Ok(reply.text)
    }

    /// Posts a body as JSON to any address of the API.
    ///
    /// The typed methods of the resources are to be preferred. This one also takes values that a person typed and
    /// that only the server can judge, such as a time.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<Answer<T>, Error> {
        self.send(Method::POST, path, body).await
    }

    /// Puts a body as JSON to any address of the API. See [`Client::post`].
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<Answer<T>, Error> {
        self.send(Method::PUT, path, body).await
    }

    /// Puts a body as plain text.
    pub(crate) async fn put_text<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
    ) -> Result<Answer<T>, Error> {
        let body = Bytes::from(body);
        let reply = self.call(Method::PUT, path, Some("text/plain"), body);
        let reply = reply.await?;
        Answer::read(reply.status, reply.text)
    }

    /// Deletes; the answer has no body.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), Error> {
        self.call(Method::DELETE, path, None, Bytes::new()).await?;
        Ok(())
    }

    /// Posts a file, however long it takes. The key makes it safe to send the same file again.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        media_type: &str,
        key: Option<&str>,
        file: FileBody,
    ) -> Result<Answer<T>, Error> {
        let mut request = self.request(Method::POST, path, Some(media_type));
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(file);
        let request = request.map_err(|error| Error::Request(error.into()))?;
        let reply = self.connector.call_without_limit(request).await?;
        Answer::read(reply.status, reply.text)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + ?Sized),
    ) -> Result<Answer<T>, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Request(error.into()))?;
        let reply = self.call(method, path, Some(JSON), Bytes::from(body));
        let reply = reply.await?;
        Answer::read(reply.status, reply.text)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        media_type: Option<&str>,
        body: Bytes,
    ) -> Result<Reply, Error> {
        let request = self.request(method, path, media_type);
        let request = request.body(Full::new(body));
        let request = request.map_err(|error| Error::Request(error.into()))?;
        self.connector.call(request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        media_type: Option<&str>,
    ) -> http::request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.connector.host);
        match media_type {
            Some(media_type) => request.header(header::CONTENT_TYPE, media_type),
            None => request,
        }
    }
}
