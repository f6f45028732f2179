//! Names of a logical unit of Linux's target, from the saved part: its unit serial number, a UUID
//! as a rule.

use super::imported::ImportedScsi;

/// Vendor of all its disks.
const VENDOR: &str = "LIO-ORG";

/// What tcmu-runner calls its disks.
const TCMU_PRODUCT: &str = "TCMU device";

/// NAA 6h, the company identifier 001405h, and the first digits of the serial number.
fn naa(serial: &str) -> Option<String> {
    let digits = serial.chars().filter(char::is_ascii_hexdigit).take(25);
    let digits: String = digits.map(|digit| digit.to_ascii_lowercase()).collect();
    (!digits.is_empty()).then(|| format!("6001405{digits:0<25}"))
}

fn names(serial: &str, product: &str, t10_id: String) -> ImportedScsi {
    ImportedScsi {
        serial: Some(serial.to_owned()),
        vendor: Some(VENDOR.to_owned()),
        product: Some(product.to_owned()),
        naa: naa(serial),
        t10_id: Some(t10_id),
    }
}

/// A disk of the kernel's own back stores.
pub fn of_kernel(serial: &str, product: &str) -> ImportedScsi {
    names(serial, product, format!("{VENDOR:8}{product}:{serial}"))
}

/// A disk of tcmu-runner's, which is not told what the kernel would call it.
pub fn of_tcmu(serial: &str) -> ImportedScsi {
    names(serial, TCMU_PRODUCT, format!("{VENDOR:8}{serial}"))
}
