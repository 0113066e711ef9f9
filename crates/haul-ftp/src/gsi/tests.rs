//! Certificates that nobody may believe. Those in `testdata` were made by openssl and are valid for a hundred years.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;

use super::certificate::{Certificate, Proxy};
use super::trust::Delegated;
use super::*;
use haul_net::http_client::Environment;

const USER: [&[u8]; 2] = [include_bytes!("testdata/user.pem"), include_bytes!("testdata/user.key")];
const OTHER: [&[u8]; 2] = [include_bytes!("testdata/other.pem"), include_bytes!("testdata/other.key")];
const SERVER_KEY: &[u8] = include_bytes!("testdata/server.key");
const REQUEST: &[u8] = include_bytes!("testdata/request.pem");
const HOUR: i64 = 3600;

/// A credential of a certificate in DER and a key in PEM.
fn credential(certificate: Vec<u8>, key: &[u8]) -> Credential {
    let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
    let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a key that can sign");
    let own = Certificate::parse(&certificate).expect("a certificate");
    let until = own.not_after;
    let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(certificate)], key));
    Credential { certified, own, until, path: "test".into() }
}

fn of([certificate, key]: [&[u8]; 2]) -> Credential {
    credential(CertificateDer::from_pem_slice(certificate).expect("a certificate").to_vec(), key)
}

fn request() -> Vec<u8> {
    CertificateSigningRequestDer::from_pem_slice(REQUEST).expect("a request").to_vec()
}

/// Whether somebody who was delegated to by `own` may have this chain at a time.
fn is_believed(own: &Credential, chain: &[Vec<u8>], at: i64) -> bool {
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|one| CertificateDer::from(one.as_slice())).collect();
    let name = ServerName::try_from("localhost").expect("a name");
    let time = UnixTime::since_unix_epoch(Duration::from_secs(at.unsigned_abs()));
    Delegated { own: own.own.clone() }.verify_server_cert(&chain[0], &chain[1..], &name, &[], time).is_ok()
}

#[test]
fn only_what_was_delegated_is_believed() {
    let (user, other, now) = (of(USER), of(OTHER), now());
    let proxy = sign(&request(), &user, now).expect("signed");
    let read = Certificate::parse(&proxy).expect("a certificate");
    assert!(
        matches!(read.proxy, Some(Proxy::Rfc(_))) && read.shown_subject().starts_with("/O=haul test/CN=user/CN="),
        "{}",
        read.shown_subject()
    );
    assert_eq!((read.not_before, read.not_after), (now - 300, now + 12 * HOUR));
    assert!(is_believed(&user, std::slice::from_ref(&proxy), now));
    // Of somebody else, after its time, with a byte changed, without being a proxy.
    assert!(!is_believed(&other, std::slice::from_ref(&proxy), now));
    assert!(
        !is_believed(&user, std::slice::from_ref(&proxy), now + 13 * HOUR) && !is_believed(&user, std::slice::from_ref(&proxy), now - HOUR)
    );
    for at in (0..proxy.len()).step_by(7) {
        let mut changed = proxy.clone();
        changed[at] ^= 1;
        assert!(!is_believed(&user, &[changed], now), "byte {at}");
    }
    assert!(!is_believed(&user, &[user.certified.cert[0].to_vec()], now) && !is_believed(&user, &[b"0".to_vec()], now));
    // A proxy of the proxy, which needs the one between.
    let second = sign(&request(), &credential(proxy.clone(), SERVER_KEY), now).expect("signed");
    assert!(is_believed(&user, &[second.clone(), proxy.clone()], now));
    assert!(!is_believed(&user, std::slice::from_ref(&second), now) && !is_believed(&other, &[second, proxy.clone()], now));
    // Signed with a key that is not the issuer's.
    let forged = sign(&request(), &credential(user.certified.cert[0].to_vec(), OTHER[1]), now).expect("signed");
    assert!(!is_believed(&user, std::slice::from_ref(&forged), now) && !is_believed(&user, &[forged, proxy], now));
}

#[test]
fn a_delegated_proxy_ends_with_its_issuer_and_has_no_more_rights() {
    let (mut user, now) = (of(USER), now());
    user.until = now + HOUR;
    assert_eq!(Certificate::parse(&sign(&request(), &user, now).expect("signed")).expect("a certificate").not_after, now + HOUR);
    let limited = Proxy::Rfc(vec![0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9]);
    for proxy in [limited, Proxy::Legacy(b"limited proxy".to_vec())] {
        user.own.proxy = Some(proxy.clone());
        assert_eq!(Certificate::parse(&sign(&request(), &user, now).expect("signed")).expect("a certificate").proxy, Some(proxy));
    }
}

#[test]
fn requests_that_nobody_signed_are_refused() {
    let (user, request) = (of(USER), request());
    for at in (0..request.len()).step_by(3) {
        let mut changed = request.clone();
        changed[at] ^= 0x10;
        assert!(sign(&changed, &user, now()).is_err(), "byte {at}");
    }
    for length in 0..request.len() {
        assert!(sign(&request[..length], &user, now()).is_err(), "{length} bytes");
    }
}

#[test]
fn cut_certificates_are_none() {
    let whole = of(USER).certified.cert[0].to_vec();
    for length in 0..whole.len() {
        assert!(Certificate::parse(&whole[..length]).is_none(), "{length} bytes");
    }
}

/// What the protected control connection makes of bytes from the server.
fn heard(bytes: &'static [u8]) -> std::io::Error {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tcp = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    listener.accept().and_then(|(mut server, _)| server.write_all(bytes)).expect("written");
    let roots = rustls::RootCertStore::empty();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config =
        config.with_protocol_versions(&[&rustls::version::TLS12]).expect("settings").with_root_certificates(roots).with_no_client_auth();
    let context = Context::new(Arc::new(config), ServerName::try_from("localhost").expect("a name")).expect("a context");
    let mut lines = Lines::new(tcp, context);
    loop {
        match std::io::Read::read(&mut lines, &mut [0; 64]) {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return e,
            Ok(count) => panic!("{count} bytes were believed"),
        }
    }
}

#[test]
fn clear_replies_are_refused_on_a_protected_connection() {
    for clear in [&b"230 logged in\r\n"[..], b"200 PROT C\r\n", b"\r\n", b"630 AAAA\r\n", b"632AAAA\r\n"] {
        assert!(heard(clear).to_string().contains("unprotected reply"), "{clear:?}");
    }
    assert!(heard(b"632 not base64!\r\n").to_string().contains("not base64"));
    assert!(heard(Vec::leak(vec![b'6'; 300 << 10])).to_string().contains("does not end"));
    assert_eq!(heard(b"632 MjMwIGxvZ2dlZCBpbg==\r\n").kind(), std::io::ErrorKind::Other);
}

/// What a directory with these files makes of a host's certificate so many years from now.
fn judged(files: &[(&str, &[u8])], name: &str, years: u64) -> Result<(), String> {
    let place = tempfile::tempdir().expect("a directory");
    for (name, bytes) in files {
        std::fs::write(place.path().join(name), bytes).expect("written");
    }
    let environment = Environment::table(None, [("X509_CERT_DIR", place.path().to_str().expect("text"))]);
    let authorities = Authorities::read(&environment, &|line| panic!("{line}")).map_err(|e| e.to_string())?;
    let host = CertificateDer::from_pem_slice(include_bytes!("testdata/host.pem")).expect("a certificate");
    let time = UnixTime::since_unix_epoch(Duration::from_secs(now().unsigned_abs() + years * 365 * 86_400));
    let name = ServerName::try_from(name.to_string()).expect("a name");
    authorities.verify_server_cert(&host, &[], &name, &[], time).map(drop).map_err(|e| e.to_string())
}

#[test]
fn hosts_are_believed_by_authority_name_time_and_list() {
    const NAME: &str = "host.example.org";
    let authority: (&str, &[u8]) = ("01234567.0", include_bytes!("testdata/authority.pem"));
    let clean: (&str, &[u8]) = ("01234567.r0", include_bytes!("testdata/clean.crl"));
    let revoked: (&str, &[u8]) = ("01234567.r1", include_bytes!("testdata/revoked.crl"));
    assert_eq!(judged(&[authority, clean], NAME, 0), Ok(()));
    let says = |files: &[(&str, &[u8])], name: &str, years, part: &str| {
        let words = judged(files, name, years).expect_err(part);
        assert!(words.contains(part), "{part}\n{words}");
    };
    says(&[authority], "other.example.org", 0, "is not for other.example.org but for /O=haul test/CN=host.example.org");
    says(&[authority], NAME, 101, "has expired");
    says(&[("01234567.0", USER[0])], NAME, 0, "signed by /O=haul test/CN=authority, which is not trusted");
    says(&[("authority.pem", authority.1)], NAME, 0, "no certificate of an authority is in it");
    says(&[authority, clean, revoked], NAME, 0, "was revoked by /O=haul test/CN=authority");
    says(&[authority, revoked], NAME, 60, "was revoked");
    says(&[authority, clean], NAME, 60, "out of date");
    let mut forged = String::from_utf8(clean.1.to_vec()).expect("text");
    let at = forged.len() - 40;
    forged.replace_range(at..=at, if &forged[at..=at] == "A" { "B" } else { "A" });
    says(&[authority, ("01234567.r0", forged.as_bytes())], NAME, 0, "is not signed by it");
}
