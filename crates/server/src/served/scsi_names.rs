//! The names of a logical unit as a parameter of the control socket.

use serde::{Deserialize, Serialize};
use std::str::FromStr;
use weft_endpoint::inventory::ScsiIdentity;

/// Names by which iSCSI initiators know a disk, as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScsiNames {
    /// Unit serial number.
    pub serial: Option<String>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Product.
    pub product: Option<String>,
    /// NAA identifier.
    pub naa: Option<String>,
    /// T10 vendor ID based designator.
    pub t10_id: Option<String>,
}

impl ScsiNames {
    /// Returns whether none is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The names.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn read(&self) -> Result<ScsiIdentity, String> {
        Ok(ScsiIdentity {
            serial: one("serial", self.serial.as_deref())?,
            vendor: one("vendor", self.vendor.as_deref())?,
            product: one("product", self.product.as_deref())?,
            naa: one("naa", self.naa.as_deref())?,
            t10_id: one("t10_id", self.t10_id.as_deref())?,
        })
    }
}

fn one<T: FromStr<Err = String>>(key: &str, text: Option<&str>) -> Result<Option<T>, String> {
    text.map(|text| text.parse().map_err(|e| format!("{key} {e}"))).transpose()
}
