//! Percent-encoding in URLs (RFC 3986 §2.1).

use std::fmt;

/// Undoes percent-encoding. The text may hold no zero byte, and is UTF-8.
pub(super) fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = behind.get(..2).and_then(|two| core::str::from_utf8(two).ok());
        let byte = digits
            .filter(|two| two.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or_else(|| format!("\"{text}\" has a % without two digits"))?);
        rest = &behind[2..];
    }
    let decoded = String::from_utf8(bytes).map_err(|_| format!("\"{text}\" is not UTF-8"))?;
    if decoded.contains('\0') { Err(format!("\"{text}\" has a zero byte")) } else { Ok(decoded) }
}

/// Text with what would not survive percent-encoded.
pub(super) struct Encoded<'a> {
    text: &'a str,
    /// What stands as it is, besides letters and digits.
    plain: &'static [u8],
}

impl<'a> Encoded<'a> {
    /// A path or the value of a parameter.
    pub(super) fn path(text: &'a str) -> Self {
        Self { text, plain: b"-._~/:@" }
    }

    /// One segment of a path of an iSCSI URL, in which an @ may follow a secret.
    pub(super) fn iscsi(text: &'a str) -> Self {
        Self { text, plain: b"-._~:" }
    }

    /// One segment of a path.
    pub(super) fn segment(text: &'a str) -> Self {
        Self { text, plain: b"-._~:@" }
    }
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.text.bytes() {
            if byte.is_ascii_alphanumeric() || self.plain.contains(&byte) {
                write!(f, "{}", char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}
