//! The authentication of the admin queue, between the answer to its Connect and the association's
//! hearing of that.

use super::super::authenticating::{self, AuthenticationIo};
use super::super::transport::ControllerLink;
use super::commands::{AdminCommand, Owner};
use super::{Admin, UnderWay};
use std::time::Duration;
use weft_block::Error;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::host::RequestId;

impl<L: ControllerLink> Admin<L> {
    /// Connect, which had this data, was answered.
    pub(super) fn connected(
        &mut self,
        now: Duration,
        connect: RequestId,
        answer: Cqe,
        data: &[u8],
    ) {
        let options = &self.association.options;
        let with = (&options.secrets, options.control.identities(), self.association.channel());
        match authenticating::begin(&self.target.name, with, data, &answer) {
            Ok(None) => self.control.admin_completed(now, connect, &answer, &[]),
            Ok(Some((engine, command))) => {
                self.authenticating = Some(UnderWay { engine, connect, answer });
                self.submit_authentication(command);
            }
            Err(why) => self.not_authenticated(now, (connect, answer), why),
        }
    }

    /// A command of the authentication has ended, with this data.
    pub(super) fn authentication_ended(&mut self, now: Duration, cqe: &Cqe, data: &[u8]) {
        let Some(mut under_way) = self.authenticating.take() else { return };
        let UnderWay { connect, answer, .. } = under_way;
        match under_way.engine.ended(cqe, data) {
            Ok(None) => {
                self.control.admin_completed(now, connect, &authenticating::done(&answer), &[])
            }
            Ok(Some(command)) => {
                // The controller may end the connection instead of an answer to this one.
                self.reason = self.reason.take().or_else(|| under_way.engine.verdict());
                self.authenticating = Some(under_way);
                self.submit_authentication(command);
            }
            Err(why) => self.not_authenticated(now, (connect, answer), why),
        }
    }

    /// The association ends, for this reason.
    fn not_authenticated(
        &mut self,
        now: Duration,
        (connect, answer): (RequestId, Cqe),
        why: Error,
    ) {
        self.reason.get_or_insert(why);
        self.control.admin_completed(now, connect, &authenticating::failed(&answer), &[]);
    }

    fn submit_authentication(&mut self, command: AuthenticationIo) {
        let AuthenticationIo { sqe, data, memory } = command;
        self.waiting.push_back((
            sqe,
            data,
            AdminCommand { owner: Owner::Authentication, data: memory },
        ));
        self.submit_waiting();
    }
}
