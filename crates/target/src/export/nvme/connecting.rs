//! From a Connect to the loop of its queue: the queue is admitted, its host proves who it is, and
//! the connection counts as admitted.

use super::admission::Admitted;
use super::authentication_session::{Answer, Asked, AuthenticationSession};
use super::connection::NvmeConnection;
use super::ports::Caller;
use super::session::NvmeLink;
use super::session::NvmeSession;
use super::transport::Engine;
use crate::export::connection_limit::Newcomer;
use crate::export::driver::Place;
use std::time::Duration;
use weft_io::Handle;
use weft_proto::nvme::controller::{ConnectError, ConnectRefusal, connect_names};
use weft_proto::nvme::types::Qid;

impl<L: NvmeLink> NvmeConnection<L> {
    /// Admits the queue that a Connect asks for, and sends the connection to its loop, unless the
    /// host has to prove first who it is.
    pub(super) fn connect(&mut self, on: &Handle, mut link: L) -> Place<Self> {
        let NvmeSession::New(new) = &mut self.session else { return Place::Here(link) };
        let Some((tag, sqe)) = new.take_connect() else { return Place::Here(link) };
        let (now, peer) = (on.now().since_epoch(), link.peer());
        let from = Caller { port: new.port(), peer: &peer, identity: new.identity() };
        let admit = || self.shared.admit(now, &sqe, new.data(), from, &self.mailbox);
        let refuse = |reason| ConnectRefusal::new(sqe.cid(), reason);
        let checked = new.check_identity().and_then(|()| {
            new.of_admin(&sqe, || self.shared.check_identifier(new.data(), new.is_proven()))
        });
        // What is admitted is given up again where somebody else was faster.
        let settled = |admitted: Admitted| match new.is_proven() {
            true => {
                let prove = || self.shared.proved_identifier(new.data(), admitted.controller);
                new.of_admin(&sqe, prove).map_err(refuse).map(|()| admitted)
            }
            false => Ok(admitted),
        };
        let placed = |admitted: Admitted| match admitted.is_stranger {
            true => Ok(admitted),
            false => take_place(now, &mut self.newcomer, admitted).map_err(refuse),
        };
        match checked.map_err(refuse).and_then(|()| admit()).and_then(settled).and_then(placed) {
            Err(refusal) => {
                let names = connect_names(new.data());
                let text = || format!("{peer}: Connect refused: {refusal} ({names})");
                self.shared.members.refusals().log(now, text);
                link.engine().complete(tag, refusal.cqe, 0);
                link.resume();
                Place::Here(link)
            }
            Ok(mut admitted) => {
                let (entries, flow_control) = admitted.begins();
                if let Some(authentication) =
                    admitted.authentication.take_if(|_| admitted.is_stranger)
                {
                    link.engine().begin_queue(entries, flow_control);
                    link.engine().complete(tag, admitted.cqe, 0);
                    let identity = new.identity().map(Into::into);
                    let asked =
                        Asked { sqe, data: Box::new(*new.data()), port: new.port(), identity };
                    let session = AuthenticationSession::new(on, asked, admitted, authentication);
                    on.wake_at(self.id, session.until());
                    self.session = NvmeSession::Authenticating(Box::new(session));
                    link.resume();
                    return Place::Here(link);
                }
                let begins = Some((entries, flow_control));
                let answer = Answer { tag, cqe: admitted.cqe, data: Vec::new(), begins };
                self.leave(link, admitted, answer)
            }
        }
    }

    /// The host has proved who it is: an I/O queue takes its place, if nobody else has it by now,
    /// and the connection goes to its loop.
    pub(super) fn proved(
        &mut self,
        on: &Handle,
        mut link: L,
        admitted: Admitted,
        answer: Answer,
    ) -> Place<Self> {
        let NvmeSession::Authenticating(session) = &self.session else { return Place::Here(link) };
        let (now, peer, Asked { sqe, data, port, identity }) =
            (on.now().since_epoch(), link.peer(), session.asked());
        let from = Caller { port: *port, peer: &peer, identity: identity.as_deref() };
        let refuse = |reason| ConnectRefusal::new(sqe.cid(), reason);
        let placed = match admitted.qid() {
            Qid(0) => {
                let proved = self.shared.proved_identifier(data, admitted.controller);
                proved.map(|()| admitted).map_err(refuse)
            }
            _ => self
                .shared
                .admit(now, sqe, data, from, &self.mailbox)
                .map(|again| admitted.taken(again)),
        };
        let take = |admitted| take_place(now, &mut self.newcomer, admitted).map_err(refuse);
        match placed.and_then(take) {
            Ok(admitted) => self.leave(link, admitted, answer),
            Err(refusal) => {
                let text = || {
                    format!(
                        "{peer}: connection closed after the authentication: {refusal} ({})",
                        connect_names(data)
                    )
                };
                self.shared.members.refusals().log(now, text);
                link.close();
                Place::Here(link)
            }
        }
    }

    fn leave(&self, link: L, admitted: Admitted, answer: Answer) -> Place<Self> {
        let home = admitted.home(&self.shared).clone();
        let make = move |on: &Handle, id, link: &mut L, mailbox: &_| {
            Self::serve(on, id, link, mailbox, admitted, answer)
        };
        Place::There(link, home, Box::new(make))
    }
}

/// The connection counts as admitted from now on, in one of the places that its controller was
/// granted if there is one. Otherwise there has to be a free one.
fn take_place(
    now: Duration,
    newcomer: &mut Option<Newcomer>,
    mut admitted: Admitted,
) -> Result<Admitted, ConnectError> {
    if let Some(held) = newcomer {
        let granted = admitted.claim.take_granted();
        held.admit(granted)
            .map_err(|full| ConnectError::ConnectionsExhausted { all: full.all, own: full.own })?;
        *newcomer = None;
    }
    admitted.claim.admitted(now);
    Ok(admitted)
}
