//! A downstream's base URL, taken apart: `http[s]://host[:port][/path]`, and nothing else.

use http::HeaderValue;
use http::uri::{Authority, Scheme, Uri};

/// A base URL taken apart.
#[derive(Debug, PartialEq)]
pub(crate) struct Base {
    pub(crate) encrypted: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Without its last slash.
    pub(crate) path: String,
    /// As it is written, or `/`.
    pub(crate) whole_path: String,
    pub(crate) host_header: HeaderValue,
}

impl Base {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("the URL {url:?} {why}");
        let uri: Uri = url
            .parse()
            .map_err(|error| bad(&format!("is not a URL: {error}")))?;
        let Some(authority) = uri.authority() else {
            return Err(bad("has no host; write http://host:port"));
        };
        if authority.as_str().contains('@') {
            return Err("must not contain a user or a password".into());
        }
        let encrypted = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(bad("must start with http:// or https://")),
        };
        // http::Uri drops a fragment without a word.
        if uri.query().is_some() || url.contains('#') {
            return Err(bad("must not have a query or a fragment"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        let default_port = if encrypted { 443 } else { 80 };
        let port = port_of(authority, default_port).ok_or_else(|| bad("has a bad host or port"))?;
        Ok(Self {
            encrypted,
            host: host.to_ascii_lowercase(),
            port,
            path: uri.path().trim_end_matches('/').to_owned(),
            whole_path: uri.path().to_owned(),
            host_header: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("has a bad host"))?,
        })
    }

    /// The same for two URLs of one place, however they are written.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}{}", self.host, self.port, self.path)
    }
}

/// The default if no port is written; none if what is written is no port, or there is no host.
fn port_of(authority: &Authority, default: u16) -> Option<u16> {
    let written = authority.as_str().strip_prefix(authority.host())?;
    match (authority.host(), written) {
        ("", _) => None,
        (_, "") => Some(default),
        _ => authority.port_u16().filter(|port| *port != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (String, u16, String) {
        let base = Base::parse(url).unwrap();
        (base.host, base.port, base.path)
    }

    #[test]
    fn a_url_gives_host_port_and_path() {
        let table = [
            ("http://bank", ("bank", 80, "")),
            ("http://bank/", ("bank", 80, "")),
            ("http://bank:9090/v1/", ("bank", 9090, "/v1")),
            ("HTTP://127.0.0.1:9", ("127.0.0.1", 9, "")),
            ("http://[::1]:8080/a/b", ("::1", 8080, "/a/b")),
            ("https://Bank.Example", ("bank.example", 443, "")),
            ("https://bank:80/", ("bank", 80, "")),
        ];
        for (url, (host, port, path)) in table {
            assert_eq!(parsed(url), (host.into(), port, path.into()), "{url}");
        }
    }

    #[test]
    fn a_path_is_also_known_as_it_is_written() {
        let table = [
            ("http://a", "/"),
            ("http://a/x/", "/x/"),
            ("http://a/x", "/x"),
        ];
        for (url, path) in table {
            assert_eq!(Base::parse(url).unwrap().whole_path, path);
        }
    }

    #[test]
    fn a_bad_url_is_named_with_what_is_wrong() {
        let table = [
            ("", "is not a URL"),
            ("bank with spaces", "is not a URL"),
            ("/payments", "has no host"),
            ("bank:9090", "must start with http://"),
            ("ftp://bank", "must start with http://"),
            ("http://bank:99999", "port"),
            ("http://bank:0", "port"),
            ("http://bank:", "port"),
            ("http://:9090", ""),
            ("http://bank?x=1", "must not have a query"),
            ("http://bank/#top", "must not have a query"),
        ];
        for (url, why) in table {
            let said = Base::parse(url).unwrap_err();
            assert!(said.contains(why), "{url}: {said}");
            assert!(said.contains(&format!("{url:?}")), "{url}: {said}");
        }
        let said = Base::parse("http://me:secret@bank").unwrap_err();
        assert!(
            said.contains("password") && !said.contains("secret"),
            "{said}"
        );
    }
}
