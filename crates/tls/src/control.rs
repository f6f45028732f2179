//! Records that are not data: alerts, and messages of the handshake that come after it (RFC 8446
//! §4.6, §5.1, §6). What they mean is the same whoever has the records.

use crate::limits::TLS_CONTROL_RECORDS_MAX;
use crate::openssl::SslFailure;
use crate::reason::TlsRole;

/// Types of records.
pub(crate) mod record {
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const APPLICATION_DATA: u8 = 23;
}

/// Types of messages.
mod message {
    pub(super) const NEW_SESSION_TICKET: u8 = 4;
    pub(super) const KEY_UPDATE: u8 = 24;
}

/// Alerts.
pub(crate) mod alert {
    pub(crate) const CLOSE_NOTIFY: u8 = 0;
    pub(crate) const UNEXPECTED_MESSAGE: u8 = 10;
    pub(crate) const BAD_RECORD_MAC: u8 = 20;
    pub(crate) const RECORD_OVERFLOW: u8 = 22;
    pub(super) const ILLEGAL_PARAMETER: u8 = 47;
    pub(super) const DECODE_ERROR: u8 = 50;
    pub(super) const USER_CANCELED: u8 = 90;
    /// What is added to the number of an alert that was received, to tell it from others.
    pub(super) const RECEIVED: u32 = 1000;

    /// The content of its record. Receivers go by the number, and not by the level.
    pub(crate) const fn content(number: u8) -> [u8; 2] {
        [if number == CLOSE_NOTIFY { 1 } else { 2 }, number]
    }
}

/// A KeyUpdate, with the demand that the other end makes new keys, too, or without.
pub(crate) const fn key_update(demands: bool) -> [u8; 5] {
    [message::KEY_UPDATE, 0, 0, 1, demands as u8]
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing that changes something.
    Nothing,
    /// The other end has ended its direction.
    End,
    /// What comes behind has new keys; with the demand for an answer, or without.
    NewKeys {
        /// True if this end has to make new keys, too.
        demands: bool,
    },
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub(crate) failure: SslFailure,
    /// The alert that tells the other end.
    pub(crate) alert: Option<u8>,
}

impl Breach {
    /// One that the other end is told of.
    pub(crate) fn new(why: &str, alert: u8) -> Self {
        Self { failure: SslFailure::Reason(0, why.into()), alert: Some(alert) }
    }

    /// A record that is not authentic.
    pub(crate) fn changed() -> Self {
        Self::new("a record was changed on its way, or the keys differ", alert::BAD_RECORD_MAC)
    }

    /// A record that is longer than any may be.
    pub(crate) fn long() -> Self {
        Self::new("the peer sent a record that is too long", alert::RECORD_OVERFLOW)
    }

    /// A record that has no place here.
    pub(crate) fn record() -> Self {
        Self::new("the peer sent a record that does not belong here", alert::UNEXPECTED_MESSAGE)
    }

    fn message(alert: u8) -> Self {
        Self::new("the peer sent a message that does not belong here", alert)
    }

    fn flood() -> Self {
        Self { failure: SslFailure::Flood, alert: Some(alert::UNEXPECTED_MESSAGE) }
    }
}

/// Bytes in front of a message's content: its type and its length.
const HEADER_BYTES: usize = 4;

/// What the records of the other end have said so far. Nothing is kept of a message but its header,
/// however long it is.
pub(crate) struct ControlRecords {
    role: TlsRole,
    /// Records without data since there was some.
    in_a_row: u32,
    /// The header of the message that is being received, of which so many bytes have come.
    header: [u8; HEADER_BYTES],
    have: usize,
    /// Bytes of its content that are still to come, once the header is there.
    left: usize,
}

impl ControlRecords {
    pub(crate) fn new(role: TlsRole) -> Self {
        Self { role, in_a_row: 0, header: [0; HEADER_BYTES], have: 0, left: 0 }
    }

    /// Takes note of data, of so many bytes.
    ///
    /// # Errors
    /// It stands within a message, or there was too little data for too long.
    #[inline]
    pub(crate) fn data(&mut self, bytes: usize) -> Result<(), Breach> {
        if self.have > 0 {
            return Err(Breach::record());
        }
        if bytes == 0 {
            return self.count();
        }
        self.in_a_row = 0;
        Ok(())
    }

    fn count(&mut self) -> Result<(), Breach> {
        self.in_a_row += 1;
        if self.in_a_row > TLS_CONTROL_RECORDS_MAX { Err(Breach::flood()) } else { Ok(()) }
    }

    /// Takes a record of a type that is not data.
    ///
    /// # Errors
    /// The connection is over.
    #[cold]
    pub(crate) fn take(&mut self, kind: u8, content: &[u8]) -> Result<Said, Breach> {
        self.count()?;
        match (kind, content) {
            (record::HANDSHAKE, &[_, ..]) => self.take_messages(content),
            // A message is not interrupted (RFC 8446 §5.1).
            _ if self.have > 0 => Err(Breach::record()),
            (record::ALERT, &[_, alert::CLOSE_NOTIFY]) => Ok(Said::End),
            (record::ALERT, &[_, alert::USER_CANCELED]) => Ok(Said::Nothing),
            (record::ALERT, &[_, number]) => Err(Breach {
                failure: SslFailure::Reason(
                    alert::RECEIVED + u32::from(number),
                    format!("the peer ended it with alert {number}"),
                ),
                alert: None,
            }),
            (record::ALERT, &[_, _, ..] | &[_]) => {
                Err(Breach { alert: Some(alert::DECODE_ERROR), ..Breach::record() })
            }
            _ => Err(Breach::record()),
        }
    }

    /// Takes the messages of a record, the first and the last of which may be a part of one.
    fn take_messages(&mut self, mut content: &[u8]) -> Result<Said, Breach> {
        let mut said = Said::Nothing;
        while !content.is_empty() {
            if said != Said::Nothing {
                // What is behind the end of the old keys would have other ones.
                return Err(Breach::message(alert::UNEXPECTED_MESSAGE));
            }
            if self.have < HEADER_BYTES {
                let n = content.len().min(HEADER_BYTES - self.have);
                self.header[self.have..self.have + n].copy_from_slice(&content[..n]);
                self.have += n;
                content = &content[n..];
                if self.have == HEADER_BYTES {
                    self.begin()?;
                }
                continue;
            }
            let (part, rest) = content.split_at(content.len().min(self.left));
            if self.header[0] == message::KEY_UPDATE {
                said = match part {
                    &[demands @ (0 | 1)] => Said::NewKeys { demands: demands == 1 },
                    _ => return Err(Breach::message(alert::ILLEGAL_PARAMETER)),
                };
            }
            self.left -= part.len();
            if self.left == 0 {
                self.have = 0;
            }
            content = rest;
        }
        Ok(said)
    }

    /// The header of a message has come.
    fn begin(&mut self) -> Result<(), Breach> {
        let [kind, high, middle, low] = self.header;
        let len = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let is_taken = match kind {
            // Tickets are not used, only clients get them, and none is empty.
            message::NEW_SESSION_TICKET => self.role == TlsRole::Client && len > 0,
            message::KEY_UPDATE if len != 1 => return Err(Breach::message(alert::DECODE_ERROR)),
            message::KEY_UPDATE => true,
            _ => false,
        };
        self.left = len;
        if is_taken { Ok(()) } else { Err(Breach::message(alert::UNEXPECTED_MESSAGE)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client makes of records of the handshake, up to the first failure.
    fn says(records: &[&[u8]]) -> Vec<Result<Said, Option<u8>>> {
        let mut control = ControlRecords::new(TlsRole::Client);
        let mut results = Vec::new();
        for content in records {
            results.push(control.take(record::HANDSHAKE, content).map_err(|breach| breach.alert));
            if results.last().is_some_and(Result::is_err) {
                break;
            }
        }
        results
    }

    const TICKET: [u8; 10] = [4, 0, 0, 6, 1, 2, 3, 4, 5, 6];
    const NOTHING: Result<Said, Option<u8>> = Ok(Said::Nothing);
    const KEYS: Result<Said, Option<u8>> = Ok(Said::NewKeys { demands: true });

    #[test]
    fn messages_may_be_divided_anywhere() {
        let all = [&TICKET[..], &TICKET, &key_update(true)].concat();
        for cut in 1..all.len() {
            let (first, second) = all.split_at(cut);
            assert_eq!(says(&[first, second]), [NOTHING, KEYS], "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(says(&bytes).last(), Some(&KEYS));
    }

    #[test]
    fn nothing_stands_behind_the_end_of_the_keys() {
        for behind in [&TICKET[..], &key_update(false), &[4]] {
            let record = [&key_update(true)[..], behind].concat();
            assert_eq!(says(&[&record]), [Err(Some(alert::UNEXPECTED_MESSAGE))]);
        }
    }

    #[test]
    fn what_does_not_belong_here_ends_the_connection() {
        for (message, alert) in [
            (&[][..], alert::UNEXPECTED_MESSAGE),
            // A ClientHello, and a ticket of nothing.
            (&[1, 0, 0, 1, 0], alert::UNEXPECTED_MESSAGE),
            (&[4, 0, 0, 0], alert::UNEXPECTED_MESSAGE),
            (&[24, 0, 0, 1, 2], alert::ILLEGAL_PARAMETER),
            (&[24, 0, 0, 2, 0, 0], alert::DECODE_ERROR),
        ] {
            assert_eq!(says(&[message]), [Err(Some(alert))], "{message:?}");
        }
        let mut server = ControlRecords::new(TlsRole::Server);
        assert!(server.take(record::HANDSHAKE, &TICKET).is_err(), "a ticket for a server");
    }

    #[test]
    fn a_message_is_not_interrupted() {
        for kind in [record::ALERT, record::APPLICATION_DATA] {
            let mut control = ControlRecords::new(TlsRole::Client);
            control.take(record::HANDSHAKE, &TICKET[..7]).unwrap();
            let result = match kind {
                record::ALERT => control.take(kind, &[1, 0]).map(drop),
                _ => control.data(5),
            };
            assert_eq!(result.map_err(|breach| breach.alert), Err(Some(alert::UNEXPECTED_MESSAGE)));
        }
    }

    #[test]
    fn alerts_end_a_direction_or_the_connection() {
        let take = |kind, content: &[u8]| {
            ControlRecords::new(TlsRole::Client).take(kind, content).map_err(|breach| breach.alert)
        };
        assert_eq!(take(record::ALERT, &[1, 0]), Ok(Said::End));
        assert_eq!(take(record::ALERT, &[2, 0]), Ok(Said::End), "the level means nothing");
        assert_eq!(take(record::ALERT, &[1, 90]), Ok(Said::Nothing));
        assert_eq!(take(record::ALERT, &[1, 20]), Err(None));
        for content in [&[2][..], &[1, 0, 1, 0]] {
            assert_eq!(take(record::ALERT, content), Err(Some(alert::DECODE_ERROR)));
        }
        for kind in [0, 20, 24, 255] {
            assert_eq!(take(kind, &[1]), Err(Some(alert::UNEXPECTED_MESSAGE)), "type {kind}");
        }
        assert_eq!(take(record::ALERT, &[]), Err(Some(alert::UNEXPECTED_MESSAGE)));
    }

    #[test]
    fn records_without_data_are_bounded() {
        let mut control = ControlRecords::new(TlsRole::Client);
        let rounds = |control: &mut ControlRecords, with_data: bool| {
            (0..TLS_CONTROL_RECORDS_MAX * 3)
                .take_while(|round| {
                    if with_data {
                        control.data(1).unwrap();
                    }
                    match round % 3 {
                        0 => control.data(0).is_ok(),
                        1 => control.take(record::HANDSHAKE, &key_update(true)).is_ok(),
                        _ => control.take(record::ALERT, &[1, 90]).is_ok(),
                    }
                })
                .count()
        };
        assert_eq!(rounds(&mut control, true), 3 * TLS_CONTROL_RECORDS_MAX as usize);
        control.data(1).unwrap();
        assert_eq!(rounds(&mut control, false), TLS_CONTROL_RECORDS_MAX as usize);
    }
}
