//! Logout, requested by the user or by the target (RFC 7143 §11.9.1, §11.14).

use super::fault::SessionFault;
use super::{Initiator, LOGOUT_TASK, Logout, Phase};
use crate::iscsi::pdu::{LogoutReason, LogoutRequest};
use core::time::Duration;

/// Time limit of the target for answering the request.
const ANSWER: Duration = Duration::from_secs(3);

impl Initiator {
    /// Ends the session in order: no further command is accepted; outstanding ones get up to
    /// `limit` to end. Then, or when the target has answered, the connection closes. Before login
    /// it closes at once.
    pub fn log_out(&mut self, limit: Duration) {
        match self.phase {
            Phase::FullFeature if self.logout == Logout::No => {
                self.logout = Logout::Wanted(self.now + limit)
            }
            Phase::Login => self.fail(SessionFault::LoggedOut),
            _ => {}
        }
    }

    /// The target wants the session to end within `seconds`. Returns whether that is new.
    pub(super) fn leave(&mut self, seconds: u64) -> bool {
        let news = self.logout == Logout::No;
        if news {
            self.logout = Logout::Wanted(self.now + Duration::from_secs(seconds));
        }
        news
    }

    /// Returns whether the request must be sent now.
    pub(super) fn logout_is_due(&self) -> bool {
        matches!(self.logout, Logout::Wanted(at) if self.slots.in_use() == 0 || self.now >= at)
    }

    /// The request.
    pub(super) fn take_logout(&mut self) -> LogoutRequest {
        self.logout = Logout::Sent(self.now + ANSWER);
        LogoutRequest {
            immediate: true,
            reason: LogoutReason::CLOSE_SESSION,
            task: LOGOUT_TASK,
            cmd_sn: self.window.cmd_sn,
            exp_stat_sn: self.window.exp_stat_sn,
            ..LogoutRequest::default()
        }
    }

    pub(super) fn tick_logout(&mut self) {
        if matches!(self.logout, Logout::Sent(at) if self.now >= at) {
            self.fail(SessionFault::LoggedOut);
        }
    }
}
