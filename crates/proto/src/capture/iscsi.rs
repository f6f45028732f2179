//! Secrets in iSCSI (RFC 7143 §12.1): the responses of CHAP in the texts of the login. Nothing is
//! secret behind the login, which is the first that is said on a connection.

use super::piece::{CaptureBytes, End, name};

const BHS_BYTES: usize = 48;
const LOGIN_REQUEST: u8 = 0x03;
const LOGIN_RESPONSE: u8 = 0x23;
const REJECT: u8 = 0x3f;
const CONTINUES: u8 = 0x40;
const TRANSITS: u8 = 0x80;
/// The next stage, if that is the full feature phase.
const FULL_FEATURE: u8 = 3;
/// The key of a response.
const RESPONSE: &[u8] = b"CHAP_R";
const INITIATOR_NAME: &[u8] = b"InitiatorName";
/// Bytes of a key that are kept: more than any key that is looked for.
const KEY_BYTES_MAX: usize = 64;
/// Bytes of a name (RFC 7143 §4.2.7).
const NAME_BYTES_MAX: usize = 223;

/// The state of a connection.
#[derive(Debug)]
pub(super) struct IscsiRedactor {
    phase: Phase,
    ends: [Direction; 2],
    host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Login,
    /// No secrets follow.
    Open,
    /// The login can no longer be followed, so nothing is shown.
    Lost,
}

#[derive(Debug, Default)]
struct Direction {
    /// The beginning of a basic header segment.
    held: Vec<u8>,
    /// Bytes of the PDU at hand behind that: additional segments, text, padding.
    additional: usize,
    text: usize,
    padding: usize,
    /// Flags of the PDU about the text and the login.
    flags: u8,
    succeeds: bool,
    reader: Reader,
}

/// Reads text piece by piece.
#[derive(Debug, Default)]
struct Reader {
    key: Vec<u8>,
    /// The bytes of the value so far; `None` within a key.
    value: Option<usize>,
    /// The value, if it is the name of the initiator.
    name: Vec<u8>,
    /// The first byte of a value of [`RESPONSE`].
    first: u8,
}

impl IscsiRedactor {
    pub(super) fn new(is_known: bool) -> Self {
        let phase = if is_known { Phase::Open } else { Phase::Login };
        Self { phase, ends: Default::default(), host: None }
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    pub(super) fn lose(&mut self) {
        if self.phase == Phase::Login {
            self.phase = Phase::Lost;
        }
    }

    pub(super) fn pass(&mut self, from: End, mut bytes: &[u8], out: &mut CaptureBytes) {
        while !bytes.is_empty() {
            match self.phase {
                Phase::Open => return self.show(from, bytes, out),
                Phase::Lost => return self.withhold(from, bytes, out),
                Phase::Login => bytes = self.step(from, bytes, out),
            }
        }
    }

    fn show(&mut self, from: End, bytes: &[u8], out: &mut CaptureBytes) {
        out.pass(&core::mem::take(&mut self.ends[from.index()].held));
        out.pass(bytes);
    }

    fn withhold(&mut self, from: End, bytes: &[u8], out: &mut CaptureBytes) {
        let held = core::mem::take(&mut self.ends[from.index()].held);
        out.withhold(held.len() + bytes.len());
    }

    /// Takes some bytes of a login; gives those behind them.
    fn step<'a>(&mut self, from: End, bytes: &'a [u8], out: &mut CaptureBytes) -> &'a [u8] {
        let end = &mut self.ends[from.index()];
        if end.additional > 0 {
            let (now, later) = cut(bytes, &mut end.additional);
            out.pass(now);
            return later;
        }
        if end.text > 0 {
            let (now, later) = cut(bytes, &mut end.text);
            for byte in now {
                out.bytes.push(end.reader.read(*byte, &mut self.host));
            }
            if end.text == 0 && end.flags & CONTINUES == 0 {
                end.reader = Reader::default();
            }
            self.finish(from);
            return later;
        }
        if end.padding > 0 {
            let (now, later) = cut(bytes, &mut end.padding);
            out.blank(now.len());
            self.finish(from);
            return later;
        }
        let (now, later) = bytes.split_at(bytes.len().min(BHS_BYTES - end.held.len()));
        end.held.extend_from_slice(now);
        if let Some(bhs) = end.held.first_chunk::<BHS_BYTES>() {
            let bhs = *bhs;
            self.begin(from, &bhs, out);
        }
        later
    }

    fn begin(&mut self, from: End, bhs: &[u8; BHS_BYTES], out: &mut CaptureBytes) {
        let kind = bhs[0] & 0x3f;
        let belongs = match from {
            End::Host => kind == LOGIN_REQUEST,
            End::Target => matches!(kind, LOGIN_RESPONSE | REJECT),
        };
        let end = &mut self.ends[from.index()];
        end.held.clear();
        if !belongs {
            self.phase = Phase::Lost;
            return out.withhold(BHS_BYTES);
        }
        end.additional = usize::from(bhs[4]) * 4;
        end.text = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize;
        end.padding = end.text.next_multiple_of(4) - end.text;
        end.flags = bhs[1];
        end.succeeds = kind == LOGIN_RESPONSE
            && bhs[36] == 0
            && bhs[1] & TRANSITS != 0
            && bhs[1] & 3 == FULL_FEATURE;
        // A Reject repeats the header of what it refuses.
        if kind == REJECT {
            end.flags = CONTINUES;
        }
        out.pass(bhs);
        self.finish(from);
    }

    /// Looks whether a PDU has come to its end, and the login with it.
    fn finish(&mut self, from: End) {
        let end = &self.ends[from.index()];
        if end.additional + end.text + end.padding == 0 && end.succeeds {
            self.phase = Phase::Open;
        }
    }
}

/// Takes up to `left` bytes.
fn cut<'a>(bytes: &'a [u8], left: &mut usize) -> (&'a [u8], &'a [u8]) {
    let (now, later) = bytes.split_at(bytes.len().min(*left));
    *left -= now.len();
    (now, later)
}

impl Reader {
    /// Takes a byte of text; gives what is shown of it.
    fn read(&mut self, byte: u8, host: &mut Option<String>) -> u8 {
        if byte == 0 {
            if let Some(name) = name(&self.name) {
                *host = Some(name);
            }
            *self = Self::default();
            return byte;
        }
        let Some(at) = &mut self.value else {
            match byte {
                b'=' => self.value = Some(0),
                _ if self.key.len() < KEY_BYTES_MAX => self.key.push(byte),
                _ => {}
            }
            return byte;
        };
        *at += 1;
        if self.key == INITIATOR_NAME && self.name.len() < NAME_BYTES_MAX {
            self.name.push(byte);
        }
        if !self.key.eq_ignore_ascii_case(RESPONSE) {
            return byte;
        }
        // The prefix stays, so that it is still a number: 0x of a hexadecimal, 0b of a base 64 one.
        match *at {
            1 => self.first = byte,
            2 if self.first == b'0' && b"xXbB".contains(&byte) => return byte,
            _ => {}
        }
        b'0'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(kind: u8, flags: u8, text: &[u8]) -> Vec<u8> {
        let mut pdu = vec![0; BHS_BYTES];
        (pdu[0], pdu[1]) = (kind, flags);
        pdu[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
        pdu.extend_from_slice(text);
        pdu.resize(pdu.len().next_multiple_of(4), 0);
        pdu
    }

    /// Passes bytes in pieces of `piece`.
    fn passed(redactor: &mut IscsiRedactor, from: End, bytes: &[u8], piece: usize) -> CaptureBytes {
        let mut out = CaptureBytes::default();
        bytes.chunks(piece).for_each(|piece| redactor.pass(from, piece, &mut out));
        out
    }

    #[test]
    fn responses_are_blanked_however_the_bytes_come() {
        let text = b"InitiatorName=iqn.2024-01.com.example:a\0CHAP_N=alice\0CHAP_R=0x1f2e\0";
        let shown = b"InitiatorName=iqn.2024-01.com.example:a\0CHAP_N=alice\0CHAP_R=0x0000\0";
        for piece in [1, 5, 48, 1000] {
            let mut redactor = IscsiRedactor::new(false);
            let request = login(0x43, 0x81, text);
            let out = passed(&mut redactor, End::Host, &request, piece);
            assert_eq!(out.bytes[..BHS_BYTES], request[..BHS_BYTES]);
            assert_eq!(&out.bytes[BHS_BYTES..][..shown.len()], shown);
            assert_eq!((out.bytes.len(), out.withheld), (request.len(), 0));
            assert_eq!(redactor.host(), Some("iqn.2024-01.com.example:a"));
        }
    }

    #[test]
    fn a_response_that_continues_in_another_pdu_is_blanked() {
        let mut redactor = IscsiRedactor::new(false);
        let first = login(0x43, CONTINUES, b"CHAP_N=a\0CHAP_R=0x1");
        let second = login(0x43, 0x81, b"f2e\0");
        let out = passed(&mut redactor, End::Host, &[first, second].concat(), 7);
        let text: Vec<u8> = out.bytes.into_iter().filter(|byte| *byte != 0).collect();
        assert!(text.ends_with(b"000"), "{text:?}");
    }

    #[test]
    fn all_is_shown_behind_the_login_and_nothing_if_it_was_lost() {
        let success = login(LOGIN_RESPONSE, 0x87, b"TargetPortalGroupTag=1\0");
        let mut redactor = IscsiRedactor::new(false);
        assert_eq!(passed(&mut redactor, End::Target, &success, 9).bytes, success);
        let data = b"CHAP_R=0x12\0and what else there is on the wire".repeat(3);
        redactor.lose();
        assert_eq!(passed(&mut redactor, End::Host, &data, 10).bytes, data);
        let mut redactor = IscsiRedactor::new(false);
        redactor.lose();
        let out = passed(&mut redactor, End::Host, &data, 10);
        assert_eq!((out.bytes.len(), out.withheld), (0, data.len() as u64));
        let mut redactor = IscsiRedactor::new(false);
        assert_eq!(passed(&mut redactor, End::Host, b"no login", 3).withheld, 0);
        assert_eq!(passed(&mut redactor, End::Host, &data, 10).withheld, 8 + data.len() as u64);
    }
}
