//! Delegation: a proxy certificate for a key that the server has made (RFC 3820). The server authenticates data connections
//! with it; it ends within twelve hours.

use haul_core::error::{Error, ErrorKind, Result};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::SignatureScheme;

use super::certificate::{Proxy, common_name_part, time_element};
use super::credential::Credential;
use super::der::{self, Reader, Signed, element};

const OP: &str = "delegate the credential";
/// Seconds that a delegated proxy is valid at the most, and those before now: clocks differ.
const LIFE: i64 = 12 * 3600;
const SLACK: i64 = 300;

const RSA_SHA256: &[u8] = &[6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11, 5, 0];
const ECDSA_SHA256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const ECDSA_SHA384: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3];
/// Critical: digitalSignature, keyEncipherment, dataEncipherment.
const KEY_USAGE: &[u8] = &[0x30, 14, 6, 3, 0x55, 0x1d, 15, 1, 1, 0xff, 4, 4, 3, 2, 4, 0xb0];
const PROXY_INFO: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 1, 14, 1, 1, 0xff];

/// Signs the key of a PKCS#10 request; the answer is a certificate in DER. Of the request nothing but the key is used.
/// Error: `Other` for what is no request, `Unsupported` where the credential's key cannot sign it.
pub fn sign(request: &[u8], credential: &Credential, now: i64) -> Result<Vec<u8>> {
    let failed = |kind, words: &str| Error::new(kind, OP).because(words.to_string());
    let key = requested_key(request).ok_or_else(|| failed(ErrorKind::Other, "the server sent no valid certificate request"))?;
    let schemes = [SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ECDSA_NISTP384_SHA384];
    let signer = credential.certified.key.choose_scheme(&schemes);
    let signer = signer.ok_or_else(|| failed(ErrorKind::Unsupported, "the credential's key cannot sign certificates"))?;
    let algorithm = match signer.scheme() {
        SignatureScheme::RSA_PKCS1_SHA256 => RSA_SHA256,
        SignatureScheme::ECDSA_NISTP256_SHA256 => ECDSA_SHA256,
        _ => ECDSA_SHA384,
    };
    let algorithm = element(der::SEQUENCE, &[algorithm]);
    let mut random = [0; 4];
    SystemRandom::new().fill(&mut random).map_err(|_| failed(ErrorKind::Other, "no random numbers"))?;
    let serial = u32::from_be_bytes(random) >> 1 | 1 << 30;
    let (name, extensions) = match credential.proxy() {
        Proxy::Legacy(word) => (String::from_utf8_lossy(&word).into_owned(), vec![KEY_USAGE.to_vec()]),
        Proxy::Rfc(language) => {
            let policy = element(der::SEQUENCE, &[&element(der::OBJECT, &[&language])]);
            let info = element(der::OCTET_STRING, &[&element(der::SEQUENCE, &[&policy])]);
            (serial.to_string(), vec![KEY_USAGE.to_vec(), element(der::SEQUENCE, &[PROXY_INFO, &info])])
        }
    };
    let own = &credential.own.subject;
    let above = Reader(own).inside(der::SEQUENCE).ok_or_else(|| failed(ErrorKind::Other, "the credential has no subject"))?;
    let subject = element(der::SEQUENCE, &[above.0, &common_name_part(&name)]);
    let validity = [time_element(now - SLACK), time_element(credential.until.min(now + LIFE))].concat();
    let signed = element(
        der::SEQUENCE,
        &[
            // Version 3.
            &[0xa0, 3, 2, 1, 2],
            &element(der::INTEGER, &[&serial.to_be_bytes()]),
            &algorithm,
            own,
            &element(der::SEQUENCE, &[&validity]),
            &subject,
            &key,
            &element(der::context(3), &[&element(der::SEQUENCE, &[&extensions.concat()])]),
        ],
    );
    let signature = signer.sign(&signed).map_err(|e| failed(ErrorKind::Other, &e.to_string()))?;
    Ok(element(der::SEQUENCE, &[&signed, &algorithm, &element(der::BIT_STRING, &[&[0], &signature])]))
}

/// The public key of a request that its owner has signed (RFC 2986).
fn requested_key(request: &[u8]) -> Option<Vec<u8>> {
    let whole = Signed::parse(request)?;
    let mut fields = Reader(whole.signed.content);
    fields.take(der::INTEGER)?;
    fields.take(der::SEQUENCE)?;
    let key = fields.take(der::SEQUENCE)?.whole;
    whole.is_by(key).then(|| key.to_vec())
}
