//! Every address of the API and the role that it needs: the one table of both. An address that is not in it is not
//! served.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use Needs::{AnyRole, Ingest, Nothing, Operate, Read};

/// Role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Creates payments, customers and invoices, and reads single ones.
    Ingest,
    /// Reads everything, changes nothing.
    Read,
    /// May do everything.
    Operate,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Ingest, Self::Read, Self::Operate];

    /// The role's name in the configuration and in errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Operate => "operate",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| format!("{text:?} is not a role; use ingest, read or operate"))
    }
}

/// What an address asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Not even a token.
    Nothing,
    /// A token with any role.
    AnyRole,
    /// The role `ingest`.
    Ingest,
    /// The role `read`.
    Read,
    /// The role `operate`.
    Operate,
}

impl Needs {
    /// The roles that are enough; `operate` may do everything.
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::Nothing | Self::AnyRole => &Role::ALL,
            Self::Ingest => &[Role::Ingest, Role::Operate],
            Self::Read => &[Role::Read, Role::Operate],
            Self::Operate => &[Role::Operate],
        }
    }
}

/// Method, address as the router knows it, and what it needs.
pub const ROUTES: &[(&str, &str, Needs)] = &[
    ("GET", "/health/live", Nothing),
    ("GET", "/health/ready", Nothing),
    // The contract and its page are the same for everybody and tell nothing of this service.
    ("GET", "/openapi.json", Nothing),
    ("GET", "/docs", Nothing),
    ("GET", "/docs/", Nothing),
    ("GET", "/docs/{*rest}", Nothing),
    ("GET", "/metrics", Read),
    ("GET", "/q/metrics", Read),
    ("POST", "/payments", Ingest),
    ("GET", "/payments", Read),
    ("POST", "/payments/bulk", Ingest),
    ("GET", "/payments/bulk", Read),
    ("GET", "/payments/bulk/{batch}", AnyRole),
    ("GET", "/payments/bulk/{batch}/errors", AnyRole),
    ("POST", "/payments/check-status", Ingest),
    ("GET", "/payments/check-status", Read),
    ("GET", "/payments/check-status/{workflow_id}", AnyRole),
    (
        "GET",
        "/payments/check-status/{workflow_id}/gateways",
        AnyRole,
    ),
    ("GET", "/payments/{id}", AnyRole),
    ("POST", "/payments/{id}/cancel", Operate),
    ("POST", "/payments/{id}/release", Operate),
    ("POST", "/payments/{id}/reschedule", Operate),
    ("POST", "/payments/{id}/reopen", Operate),
    ("POST", "/customers", Ingest),
    ("GET", "/customers", Read),
    ("GET", "/customers/{id}", AnyRole),
    ("PUT", "/customers/{id}", Operate),
    ("POST", "/invoices", Ingest),
    ("GET", "/invoices", Read),
    ("GET", "/invoices/{id}", AnyRole),
    ("GET", "/invoices/{id}/occurrences", AnyRole),
    ("POST", "/invoices/{id}/cancel", Operate),
    ("POST", "/invoices/{id}/correct", Operate),
    ("POST", "/invoices/{id}/reschedule", Operate),
    ("POST", "/invoices/{id}/settle", Operate),
    ("GET", "/billing/schedules/global", Read),
    ("PUT", "/billing/schedules/global", Operate),
    ("DELETE", "/billing/schedules/global", Operate),
    ("GET", "/billing/schedules/customer/{id}", Read),
    ("PUT", "/billing/schedules/customer/{id}", Operate),
    ("DELETE", "/billing/schedules/customer/{id}", Operate),
    ("GET", "/billing/schedules/invoice/{id}", Read),
    ("PUT", "/billing/schedules/invoice/{id}", Operate),
    ("DELETE", "/billing/schedules/invoice/{id}", Operate),
    // Asks what would happen and changes nothing.
    ("POST", "/billing/schedules/preview", Read),
    ("GET", "/admin/rate-limit/config", Read),
    ("POST", "/admin/rate-limit/config", Operate),
    ("POST", "/admin/rate-limit/cache/flush", Operate),
    ("GET", "/admin/rate-limit/windows", Read),
    ("GET", "/admin/rate-limit/certificate", Read),
    // Asks what would happen and changes nothing.
    ("POST", "/admin/rate-limit/forecast", Read),
    ("GET", "/admin/now", Read),
    ("GET", "/admin/needs-you", Read),
    ("POST", "/admin/needs-you/{kind}/seen", Operate),
    ("GET", "/admin/held", Read),
    ("GET", "/admin/nodes", Read),
    ("POST", "/admin/lanes/{lane}/pause", Operate),
    ("POST", "/admin/lanes/{lane}/resume", Operate),
    ("POST", "/admin/lanes/{lane}/replan", Operate),
    ("POST", "/admin/lanes/{lane}/adjust", Operate),
    ("POST", "/admin/lanes/{lane}/reconcile", Operate),
    ("GET", "/admin/lanes/{lane}/history", Read),
    ("GET", "/admin/storms", Read),
    ("POST", "/admin/storms/{storm}/reopen", Operate),
    ("POST", "/admin/banks/{bank}/ask", Operate),
    ("GET", "/admin/calendars", Read),
    ("GET", "/admin/calendars/{name}", Read),
    ("PUT", "/admin/calendars/{name}", Operate),
    ("PUT", "/admin/calendars/{name}/holidays", Operate),
    ("GET", "/admin/calendars/{name}/history", Read),
    ("GET", "/admin/events", Read),
    ("POST", "/admin/events/off", Operate),
    ("GET", "/admin/feeds", Read),
    ("POST", "/admin/feeds/{feed}/pause", Operate),
    ("POST", "/admin/feeds/{feed}/resume", Operate),
    ("POST", "/admin/feeds/{feed}/seek", Operate),
    ("POST", "/admin/feeds/{feed}/forget", Operate),
    ("GET", "/admin/in-doubt", Read),
    ("POST", "/admin/in-doubt/ask", Operate),
    ("GET", "/admin/in-doubt/{item_type}/{id}", Read),
    ("POST", "/admin/in-doubt/{item_type}/{id}/resolve", Operate),
    ("GET", "/admin/totals", Read),
    ("GET", "/admin/item-types", Read),
    ("GET", "/admin/item-types/{item_type}", Read),
    ("PUT", "/admin/item-types/{item_type}", Operate),
    ("GET", "/admin/item-types/{item_type}/history", Read),
    ("GET", "/admin/item-types/{item_type}/retention", Read),
    ("PUT", "/admin/item-types/{item_type}/retention", Operate),
    ("GET", "/admin/dead-letters", Read),
    (
        "POST",
        "/admin/dead-letters/{item_type}/{id}/replay",
        Operate,
    ),
    ("GET", "/admin/archive", Read),
    ("GET", "/admin/archive/status", Read),
    ("GET", "/admin/archive/{day}", Read),
    ("GET", "/admin/archive/{day}/items", Read),
    ("GET", "/admin/archive/{day}/audit", Read),
    ("POST", "/admin/archive/run", Operate),
    ("POST", "/admin/archive/{day}/verify", Operate),
    ("POST", "/admin/archive/{day}/export", Operate),
    ("POST", "/admin/archive/{day}/restore", Operate),
    ("GET", "/admin/audit", Read),
    // A preview fixes what it finds.
    ("POST", "/admin/jobs", Operate),
    ("GET", "/admin/jobs", Read),
    ("GET", "/admin/jobs/{job}", Read),
    ("GET", "/admin/jobs/{job}/items", Read),
    ("POST", "/admin/jobs/{job}/stop", Operate),
    ("POST", "/admin/erasures", Operate),
    ("GET", "/admin/erasures/{erasure}", Operate),
    ("GET", "/admin/rules", Read),
    ("POST", "/admin/rules/reload", Operate),
    // Asks what would happen and changes nothing.
    ("POST", "/admin/rules/dry-run", Read),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_listed_twice() {
        for (n, (method, path, _)) in ROUTES.iter().enumerate() {
            let again = ROUTES[..n].iter().any(|(m, p, _)| (m, p) == (method, path));
            assert!(!again, "{method} {path}");
        }
    }
}
