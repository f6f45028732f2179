//! iSCSI names (RFC 7143 §4.2.7; RFC 3721).

use crate::printable::Printable;
use core::fmt;

/// Bytes of a name, at most.
pub const NAME_BYTES_MAX: usize = 223;

/// Reason why a text cannot be a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty or too long.
    #[error("an iSCSI name has 1 to {NAME_BYTES_MAX} bytes")]
    Length,
    /// It has control characters.
    #[error("an iSCSI name has no control characters")]
    Character,
}

/// Deviation of a name from RFC 7143 §4.2.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// It starts with none of `iqn.`, `eui.`, `naa.`.
    #[error("it starts with none of iqn., eui. and naa.")]
    Type,
    /// The part after the type is not of its form.
    #[error(
        "iqn. is followed by a date and a reversed domain, as in iqn.2026-01.org.example:disks, eui. by 16 hexadecimal digits, naa. by 16 or 32"
    )]
    Form,
    /// A character that no name of the standard has.
    #[error("it has other characters than letters, digits, dots, colons and hyphens")]
    Character,
}

/// An iSCSI name, in lower case. It may have any form, as LIO, tgt and open-iscsi accept them;
/// [`Self::check_form`] compares it with the standard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Checks a name and puts it into lower case. Other normalization of characters beyond ASCII is
    /// the user interface's business (RFC 3722).
    pub fn new(text: &str) -> Result<Self, NameError> {
        let name = text.to_lowercase();
        if name.is_empty() || text.len() > NAME_BYTES_MAX || name.len() > NAME_BYTES_MAX {
            return Err(NameError::Length);
        }
        // What was no UTF-8 has become the replacement character: different names would become the
        // same.
        if name.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER) {
            return Err(NameError::Character);
        }
        Ok(Self(name))
    }

    /// Checks that it has the form of RFC 7143 §4.2.7.
    pub fn check_form(&self) -> Result<(), FormError> {
        let (kind, rest) = self.0.split_at_checked(4).ok_or(FormError::Type)?;
        let well_formed = match kind {
            "iqn." => is_iqn(rest),
            "eui." => is_hexadecimal(rest, &[16]),
            "naa." => is_hexadecimal(rest, &[16, 32]),
            _ => return Err(FormError::Type),
        };
        let allowed = |c: char| {
            if c.is_ascii() {
                c.is_ascii_alphanumeric() || ".:-".contains(c)
            } else {
                c.is_alphanumeric()
            }
        };
        match self.0.chars().all(allowed) {
            false => Err(FormError::Character),
            true if well_formed => Ok(()),
            true => Err(FormError::Form),
        }
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

/// For people; the name itself is [`Name::as_str`].
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_each_type() {
        for name in [
            "iqn.2001-04.com.example",
            "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
            "eui.02004567A425678D",
        ] {
            let name_of = Name::new(name).unwrap();
            assert_eq!((name_of.as_str(), name_of.check_form()), (&*name.to_lowercase(), Ok(())));
        }
        assert_eq!(Name::new("naa.62004567BA64678D0123456789ABCDEF").unwrap().check_form(), Ok(()));
        // What libiscsi's tests call themselves.
        assert_eq!(
            Name::new("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test").unwrap().check_form(),
            Ok(())
        );
    }

    #[test]
    fn names_of_any_form() {
        for (name, why) in [
            ("disk", FormError::Type),
            ("\u{e9}", FormError::Type),
            ("iqn.2001.com", FormError::Form),
            ("iqn.2015-1.workgroup:raid", FormError::Form),
            ("eui.123", FormError::Form),
            ("iqn.2001-04.com.example/disk", FormError::Character),
            ("iqn.2003-01.org.linux-iscsi.iron_man.x8664:sn.d93914fac7d4", FormError::Character),
            ("Hello?", FormError::Type),
        ] {
            let name = Name::new(name).unwrap();
            assert_eq!(name.check_form(), Err(why), "{name}");
        }
    }

    #[test]
    fn what_is_no_name() {
        assert_eq!(Name::new(""), Err(NameError::Length));
        assert_eq!(Name::new(&format!("iqn.2001-04.{}", "a".repeat(220))), Err(NameError::Length));
        assert_eq!(Name::new("iqn.2001-04.com.example:\u{1b}[2J"), Err(NameError::Character));
        assert_eq!(Name::new("iqn.2001-04.com.example:\u{fffd}"), Err(NameError::Character));
    }
}
