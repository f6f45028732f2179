//! Large binary values: hexadecimal after `0x`, Base64 after `0b` (RFC 7143 §6.1).

use core::fmt::Write;

/// Digits of Base64 (RFC 4648 §4).
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Hexadecimal.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        // A String takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Either form, of at most `max_bytes`. `None`: it is neither, or longer.
pub fn decode(text: &str, max_bytes: usize) -> Option<Vec<u8>> {
    let (prefix, digits) = text.split_at_checked(2)?;
    match prefix {
        "0x" | "0X" if digits.len() <= 2 * max_bytes => hexadecimal(digits.as_bytes()),
        "0b" | "0B" if digits.len() <= max_bytes.div_ceil(3) * 4 => {
            base64(digits.as_bytes()).filter(|it| it.len() <= max_bytes)
        }
        _ => None,
    }
}

fn hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.is_empty() {
        return None;
    }
    let value = |digit: u8| Some(char::from(digit).to_digit(16)? as u8);
    // An odd number of digits stands for a number whose first digit is zero.
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let first = odd.iter().map(|&digit| value(digit));
    let rest = pairs.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?));
    first.chain(rest).collect()
}

fn base64(digits: &[u8]) -> Option<Vec<u8>> {
    let used = digits.iter().position(|&digit| digit == b'=').unwrap_or(digits.len());
    let (digits, padding) = digits.split_at(used);
    if digits.is_empty()
        || digits.len() % 4 == 1
        || padding.len() > 2
        || padding.iter().any(|&digit| digit != b'=')
    {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(digits.len() * 3 / 4), 0_u32, 0);
    for digit in digits {
        let value = BASE64.iter().position(|it| it == digit)? as u32;
        bits = (bits << 6 | value) & 0xffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        assert_eq!(decode("0x0aFf", 2), Some(vec![0x0a, 0xff]));
        assert_eq!(decode("0xaff", 2), Some(vec![0x0a, 0xff]));
        assert_eq!(decode(&encode(b"weft"), 4).as_deref(), Some(&b"weft"[..]));
        assert_eq!(decode("0bZm9vYg==", 4).as_deref(), Some(&b"foob"[..]));
        assert_eq!(decode("0bZm9vYmE=", 5).as_deref(), Some(&b"fooba"[..]));
        assert_eq!(decode("0BZm9vYmFy", 6).as_deref(), Some(&b"foobar"[..]));
    }

    #[test]
    fn what_is_neither_or_too_long_is_refused() {
        for text in [
            "",
            "0",
            "0x",
            "0b",
            "0xgg",
            "0bZ",
            "0bZm9v=Yg",
            "0bZm9vYg===",
            "1234",
            "0x0102030405",
            "0bZm9vYmFy",
            "0é",
        ] {
            assert_eq!(decode(text, 4), None, "{text}");
        }
    }
}
