//! People's acts as lines of the log. The audit log has the reasons too; here they are left out, since people may
//! write account numbers into them.

use super::App;

impl App {
    /// What a person did, and to what: after it is done. What needs a person is looked at again.
    pub(super) fn acted(&self, actor: &str, act: &'static str, on: &str) {
        tracing::info!(actor, act, on, "a person acted");
        self.needs_you.forget();
    }
}
