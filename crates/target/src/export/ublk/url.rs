//! `ublk:[N][/NSID][?nqn=NQN]`: which disk, and which namespace it has.

use weft_block::{Error, ErrorKind};
use weft_connection::url::UBLK;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A URL, made out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UblkUrl {
    /// The number N of `/dev/ublkbN`; `None`: any.
    pub number: Option<u32>,
    /// The namespace; `None`: the first one.
    pub nsid: Option<Nsid>,
    /// The subsystem; `None`: the first one.
    pub nqn: Option<Nqn>,
}

/// The largest number of a disk that the kernel can have.
const NUMBER_MAX: u32 = (1 << 20) - 1;

impl UblkUrl {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| {
            let text = format!(
                "\"{text}\" is not an address for a disk of this system: {why}; write ublk:, ublk:NUMBER or ublk:NUMBER/NSID"
            );
            Error::new(ErrorKind::Usage, text)
        };
        let rest = text.strip_prefix(UBLK).ok_or_else(|| bad("it does not start with ublk:"))?;
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
        let (number, nsid) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
        let number = match number {
            "" => None,
            digits => {
                let number = digits.parse().ok().filter(|number| *number <= NUMBER_MAX);
                Some(number.ok_or_else(|| bad("its number is not that of a disk"))?)
            }
        };
        let nsid = nsid.map(|digits| {
            Nsid::parse(digits).ok_or_else(|| bad("its namespace has no such identifier"))
        });
        let nqn = query.map(|query| {
            let name = query.strip_prefix("nqn=").ok_or_else(|| bad("it has an unknown option"))?;
            Nqn::new(name).map_err(|e| bad(&format!("its NQN is wrong: {e}")))
        });
        Ok(Self { number, nsid: nsid.transpose()?, nqn: nqn.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_chosen() {
        let url = |text| UblkUrl::parse(text).unwrap();
        let any = UblkUrl { number: None, nsid: None, nqn: None };
        assert_eq!(url("ublk:"), any);
        assert_eq!(url("ublk:7"), UblkUrl { number: Some(7), ..any.clone() });
        assert_eq!(url("ublk:/3"), UblkUrl { nsid: Some(Nsid(3)), ..any.clone() });
        let nqn = Some(Nqn::new("nqn.2026-01.example:a").unwrap());
        let all = UblkUrl { number: Some(0), nsid: Some(Nsid(1)), nqn };
        assert_eq!(url("ublk:0/1?nqn=nqn.2026-01.example:a"), all);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in
            ["ublk:x", "ublk:1048576", "ublk:1/0", "ublk:1/", "ublk:?nqn=", "ublk:?x", "ublk:-1"]
        {
            let error = UblkUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
