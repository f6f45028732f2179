//! Messages of in-band authentication (NVMe Base 2.1 §8.3.4.5): which parts of them are responses.

/// Bytes in front of the first value of a message with a response.
const FIXED_BYTES: usize = 16;

/// `AUTH_TYPE` of messages that all protocols share.
const COMMON: u8 = 0;
/// `AUTH_TYPE` of DH-HMAC-CHAP.
const DHCHAP: u8 = 1;

mod message {
    pub(super) const NEGOTIATE: u8 = 0x00;
    pub(super) const CHALLENGE: u8 = 0x01;
    pub(super) const REPLY: u8 = 0x02;
    pub(super) const SUCCESS_1: u8 = 0x03;
    pub(super) const SUCCESS_2: u8 = 0x04;
    pub(super) const FAILURE_2: u8 = 0xf0;
    pub(super) const FAILURE_1: u8 = 0xf1;
}

/// Blanks the response in a message that is whole, and all values of one that is not understood.
pub(super) fn blank(message: &mut [u8]) {
    let &[kind, id, _, _, _, _, hash_bytes, ..] = &*message else {
        return message.fill(0);
    };
    let shown = matches!(
        (kind, id),
        (COMMON, message::NEGOTIATE | message::FAILURE_1 | message::FAILURE_2)
            | (DHCHAP, message::CHALLENGE | message::SUCCESS_2)
    );
    if shown {
        return;
    }
    let Some(values) = message.get_mut(FIXED_BYTES..) else { return message.fill(0) };
    let has_response = matches!((kind, id), (DHCHAP, message::REPLY | message::SUCCESS_1));
    match values.split_at_mut_checked(usize::from(hash_bytes)) {
        Some((response, _)) if has_response && matches!(hash_bytes, 32 | 48 | 64) => {
            response.fill(0);
        }
        _ => values.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(head: [u8; 7], bytes: usize) -> Vec<u8> {
        let mut message: Vec<u8> = (0..bytes).map(|n| n as u8 | 1).collect();
        message[..7].copy_from_slice(&head);
        blank(&mut message);
        message
    }

    #[test]
    fn only_responses_are_blanked() {
        let reply = blanked([1, 2, 0, 0, 7, 0, 32], 16 + 64 + 4);
        assert_eq!(reply[..7], [1, 2, 0, 0, 7, 0, 32]);
        assert!(reply[16..48].iter().all(|byte| *byte == 0));
        assert!(reply[48..].iter().all(|byte| *byte != 0), "the challenge is shown");
        for (kind, id) in [(0, 0), (0, 0xf0), (0, 0xf1), (1, 1), (1, 4)] {
            assert!(blanked([kind, id, 0, 0, 7, 0, 32], 80)[16..].iter().all(|byte| *byte != 0));
        }
    }

    #[test]
    fn what_is_not_understood_is_blanked_whole() {
        for head in [[1, 2, 0, 0, 7, 0, 200], [1, 3, 0, 0, 7, 0, 31], [1, 9, 0, 0, 7, 0, 32]] {
            assert!(blanked(head, 80)[16..].iter().all(|byte| *byte == 0), "{head:?}");
        }
        assert!(blanked([1, 2, 0, 0, 7, 0, 32], 40)[16..].iter().all(|byte| *byte == 0));
        let mut short = [1, 2, 0];
        blank(&mut short);
        assert_eq!(short, [0; 3]);
    }
}
