//! By `rcgen`.

use super::Made;
use crate::Error;

/// Makes a key (ECDSA on P-256), and a certificate for it with this name.
///
/// # Errors
/// The system has no random numbers, or the name is not one of a host.
pub fn make(name: &str) -> Result<Made, Error> {
    let failed = |error| Error::Failed(format!("cannot make a certificate: {error}"));
    let key = rcgen::KeyPair::generate().map_err(failed)?;
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Made { certificate: certificate.der().to_vec(), key: key.serialize_der() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_certificate_is_another() {
        let [one, other] = [(); 2].map(|()| make("weft-agent").unwrap());
        assert_ne!(one.certificate, other.certificate);
        assert_ne!(one.key, other.key);
    }
}
