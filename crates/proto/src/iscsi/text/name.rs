//! iSCSI names (RFC 7143 §4.2.7; RFC 3721).

use core::fmt;

/// Bytes of a name, at most.
pub const NAME_BYTES_MAX: usize = 223;

/// Why a text is no iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("an iSCSI name has 1 to {NAME_BYTES_MAX} characters")]
    Length,
    /// It starts with none of `iqn.`, `eui.`, `naa.`.
    #[error("an iSCSI name starts with iqn., eui. or naa.")]
    Type,
    /// The part after the type is not of its form.
    #[error(
        "an iqn. name continues with a date and a reversed domain, as iqn.2026-01.org.example:disks; eui. with 16 hexadecimal digits, naa. with 16 or 32"
    )]
    Form,
    /// A character that no name has.
    #[error("an iSCSI name consists of letters, digits, dots, colons and hyphens")]
    Character,
}

/// An iSCSI name, in its normal form: lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks and normalizes a name. Characters beyond ASCII are taken as they are, as their normalization is the user interface's
    /// business (RFC 3722).
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > NAME_BYTES_MAX {
            return Err(NameError::Length);
        }
        let name = text.to_lowercase();
        let (kind, rest) = name.split_at_checked(4).ok_or(NameError::Type)?;
        let well_formed = match kind {
            "iqn." => is_iqn(rest),
            "eui." => is_hexadecimal(rest, &[16]),
            "naa." => is_hexadecimal(rest, &[16, 32]),
            _ => return Err(NameError::Type),
        };
        let allowed = |c: char| if c.is_ascii() { c.is_ascii_alphanumeric() || ".:-".contains(c) } else { c.is_alphanumeric() };
        if !name.chars().all(allowed) {
            return Err(NameError::Character);
        }
        if well_formed && name.len() <= NAME_BYTES_MAX { Ok(Self(name)) } else { Err(NameError::Form) }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `yyyy-mm.reversed.domain[:anything]`.
fn is_iqn(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let date = bytes.len() > 8 && bytes[4] == b'-' && bytes[7] == b'.';
    date && bytes[..7].iter().enumerate().all(|(n, byte)| n == 4 || byte.is_ascii_digit())
}

fn is_hexadecimal(rest: &str, lengths: &[usize]) -> bool {
    lengths.contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_type() {
        for name in ["iqn.2001-04.com.example", "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309", "eui.02004567A425678D"]
        {
            assert_eq!(Name::new(name).unwrap().as_str(), name.to_lowercase());
        }
        assert!(Name::new("naa.62004567BA64678D0123456789ABCDEF").is_ok());
        // What libiscsi's tests call themselves.
        assert!(Name::new("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test").is_ok());
    }

    #[test]
    fn what_is_no_name() {
        assert_eq!(Name::new(""), Err(NameError::Length));
        assert_eq!(Name::new(&format!("iqn.2001-04.{}", "a".repeat(220))), Err(NameError::Length));
        assert_eq!(Name::new("disk"), Err(NameError::Type));
        assert_eq!(Name::new("é"), Err(NameError::Type));
        assert_eq!(Name::new("iqn.2001.com"), Err(NameError::Form));
        assert_eq!(Name::new("eui.123"), Err(NameError::Form));
        assert_eq!(Name::new("iqn.2001-04.com.example/disk"), Err(NameError::Character));
    }
}
