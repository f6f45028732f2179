//! A device that its opener has reserved: nobody else writes to it as long as its target reports
//! that this opener holds the reservation.
//!
//! Each opening registers with a key that no other one has. A report in which that key holds the
//! reservation shows that nobody has taken it since, also after a restart of the target, where the
//! generation starts again. The upper half of a key is the host's: an opening of the same host
//! takes the place of an earlier one, which is shut out by that, whether it still runs or not.

use super::asking::{Answer, ask_from};
use super::opener::PathOpener;
use uuid::Uuid;
use weft_block::{
    Device, Error, ErrorKind, OpKind, ReservationKind, ReservationReport, ReserveAction,
    StatusKind, opener_of,
};

/// Everybody may read.
const KIND: ReservationKind = ReservationKind::WriteExclusive;

/// The key of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

/// 32 bits of a name, of which nothing is known.
fn half(name: Uuid) -> u64 {
    u64::from(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).as_fields().0)
}

/// Gives the reservation of an earlier opening back in its place, where a target lets no other
/// session of a host take it ([`opener_of`]).
async fn displace(opener: &PathOpener, key: u64) -> Result<(), Error> {
    let device = opener.begin_as(opener_of(key))?.await?;
    tracing::warn!(
        "{}: its target lets nobody take the reservation of an earlier connection of this host; weft has connected in that one's place and gives it back",
        device.url()
    );
    ask_from(&opener.options.control, &device, OpKind::Reserve(ReserveAction::Unregister { key }))?
        .await
        .map(drop)
}

impl Key {
    /// Of an opening of this host; never 0, which is no key.
    pub(super) fn new(host: Uuid, opening: Uuid) -> Self {
        Self(half(host) << 32 | half(opening).max(1))
    }

    /// Who the target is told that this opening is.
    pub(super) fn opener(self) -> Uuid {
        opener_of(self.0)
    }

    /// The keys of earlier openings of this host, whose place this one takes, the holder's last.
    ///
    /// # Errors
    /// That another host has reserved the device.
    fn predecessors(self, report: &ReservationReport) -> Result<Vec<u64>, String> {
        let is_own = |key: u64| key >> 32 == self.0 >> 32;
        let holder = report.registrants.iter().find(|registrant| registrant.holds);
        if report.is_cut || report.kind.is_some() && holder.is_none() {
            return Err("it is reserved, and its target does not tell by whom".into());
        }
        if let Some(holder) = holder.filter(|holder| !is_own(holder.key)) {
            let host = Uuid::from_bytes(holder.host);
            return Err(format!(
                "another host has reserved it (host identifier {host}, key {:#x})",
                holder.key
            ));
        }
        let mut keys: Vec<u64> = report
            .registrants
            .iter()
            .map(|it| it.key)
            .filter(|key| is_own(*key) && *key != self.0)
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys.sort_by_key(|key| holder.is_some_and(|holder| holder.key == *key));
        Ok(keys)
    }

    /// Whether this opening, and nobody else, may write, by what a device has answered.
    pub(super) fn holds(self, answer: &Answer) -> bool {
        let Answer::Report(report) = answer else { return false };
        let excludes = matches!(
            report.kind,
            Some(ReservationKind::WriteExclusive | ReservationKind::ExclusiveAccess)
        );
        excludes
            && report
                .registrants
                .iter()
                .any(|registrant| registrant.holds && registrant.key == self.0)
    }

    /// What ends the registration, and with it the reservation.
    pub(super) fn given_back(self) -> OpKind {
        OpKind::Reserve(ReserveAction::Unregister { key: self.0 })
    }

    /// Reserves a device that has just been opened.
    ///
    /// # Errors
    /// That it cannot be reserved, and why.
    pub(super) async fn take(self, opener: &PathOpener, device: &Device) -> Result<(), Error> {
        let control = &opener.options.control;
        let fail = |why: &str, kind| {
            let text = format!(
                "{}: it cannot be reserved (--reserve): {why}; release that reservation, or leave the option out",
                device.url()
            );
            Error::new(kind, text)
        };
        if !device.features().reservations {
            let text =
                format!("{}: the device has no reservations; leave out --reserve", device.url());
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let predecessors = match ask_from(control, device, OpKind::ReservationReport)?.await? {
            Answer::Report(report) => {
                self.predecessors(&report).map_err(|why| fail(&why, ErrorKind::InUse))?
            }
            Answer::Done(status) => {
                return Err(fail(
                    &format!("its report cannot be read ({status:?})"),
                    ErrorKind::Refused,
                ));
            }
        };
        let key = self.0;
        let acquire = ReserveAction::Acquire { key, kind: KIND };
        let preempt = |of: &u64| ReserveAction::Preempt { key, of: *of, kind: KIND };
        let steps = [ReserveAction::Register { key }]
            .into_iter()
            .chain(predecessors.iter().map(preempt))
            .chain([acquire]);
        let mut is_refused = false;
        for action in steps {
            match ask_from(control, device, OpKind::Reserve(action))?.await? {
                Answer::Done(StatusKind::Success) => is_refused = false,
                // A predecessor is not registered any more, say.
                Answer::Done(StatusKind::ReservationConflict) => is_refused = true,
                answer => {
                    return Err(fail(
                        &format!("{action:?} was answered with {answer:?}"),
                        ErrorKind::Refused,
                    ));
                }
            }
        }
        if let Some(holder) = predecessors.last().filter(|_| is_refused) {
            displace(opener, *holder).await?;
            is_refused = ask_from(control, device, OpKind::Reserve(acquire))?.await?
                != Answer::Done(StatusKind::Success);
        }
        if is_refused {
            Err(fail("another host has just reserved it", ErrorKind::InUse))
        } else {
            Ok(())
        }
    }
}
