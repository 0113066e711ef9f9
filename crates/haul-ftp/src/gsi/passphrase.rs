//! Private keys with a passphrase: PKCS#8 (`ENCRYPTED PRIVATE KEY`), and the form of OpenSSL before it, whose headers name the cipher.

use std::path::Path;

use aes::{Aes128, Aes192, Aes256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use des::TdesEde3;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::hash::unhex;
use md5::{Digest as _, Md5};
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

use super::credential::{NEW_PROXY, OP};
use super::der::{Reader, SEQUENCE};
use haul_net::terminal;

/// How often one key's passphrase is asked for.
const TRIES: u32 = 3;

/// A key that a passphrase opens.
#[derive(Debug)]
pub struct Locked {
    kind: Kind,
    content: Zeroizing<Vec<u8>>,
}

#[derive(Debug)]
enum Kind {
    Pkcs8,
    Traditional { is_rsa: bool, cipher: &'static Cipher, iv: Vec<u8> },
}

/// A cipher of OpenSSL's own form: its name, bytes of the key and of a block, and how it decrypts.
type Cipher = (&'static str, usize, usize, fn(&[u8], &[u8], &[u8]) -> Option<Zeroizing<Vec<u8>>>);

const CIPHERS: [Cipher; 4] = [
    ("AES-128-CBC", 16, 16, decrypt::<Decryptor<Aes128>>),
    ("AES-192-CBC", 24, 16, decrypt::<Decryptor<Aes192>>),
    ("AES-256-CBC", 32, 16, decrypt::<Decryptor<Aes256>>),
    ("DES-EDE3-CBC", 24, 8, decrypt::<Decryptor<TdesEde3>>),
];

fn decrypt<D: KeyIvInit + BlockModeDecrypt>(key: &[u8], iv: &[u8], bytes: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut buffer = Zeroizing::new(bytes.to_vec());
    let end = D::new_from_slices(key, iv).ok()?.decrypt_padded::<Pkcs7>(&mut buffer).ok()?.len();
    buffer.truncate(end);
    Some(buffer)
}

/// Why an encrypted key cannot be opened by any passphrase.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is not encrypted.
    Plain,
    /// By a cipher that is not known here.
    Cipher(String),
    Damaged,
}

impl Locked {
    /// The first private key of a file in PEM.
    pub fn find(text: &[u8]) -> Result<Locked, Unusable> {
        let text = std::str::from_utf8(text).map_err(|_| Unusable::Damaged)?;
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.ends_with("PRIVATE KEY-----"));
        let first = lines.next().ok_or(Unusable::Plain)?;
        let label = first.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("PRIVATE KEY-----")).ok_or(Unusable::Damaged)?;
        let (mut headers, mut content) = (Vec::new(), Zeroizing::new(String::new()));
        for line in lines.take_while(|line| !line.starts_with("-----END ")) {
            match line.split_once(':') {
                Some(header) => headers.push(header),
                None => content.push_str(line),
            }
        }
        let header = |name: &str| headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim());
        let kind = match label.trim() {
            "ENCRYPTED" => Kind::Pkcs8,
            "RSA" | "EC" if header("Proc-Type").is_some_and(|kind| kind.ends_with("ENCRYPTED")) => {
                let (name, iv) = header("DEK-Info").and_then(|value| value.split_once(',')).ok_or(Unusable::Damaged)?;
                let cipher = CIPHERS.iter().find(|(known, ..)| *known == name.trim());
                let cipher = cipher.ok_or_else(|| Unusable::Cipher(name.trim().to_string()))?;
                let iv = unhex(iv.trim()).filter(|iv| iv.len() == cipher.2).ok_or(Unusable::Damaged)?;
                Kind::Traditional { is_rsa: label.trim() == "RSA", cipher, iv }
            }
            _ => return Err(Unusable::Plain),
        };
        let content = Zeroizing::new(BASE64.decode(content.as_bytes()).map_err(|_| Unusable::Damaged)?);
        if let Kind::Pkcs8 = kind {
            EncryptedPrivateKeyInfoRef::try_from(&content[..]).map_err(|_| Unusable::Cipher("this PKCS#8 encryption".into()))?;
        }
        Ok(Locked { kind, content })
    }

    /// The key; `None` for a wrong passphrase, with which nothing can be read.
    pub fn open(&self, passphrase: &str) -> Option<Zeroizing<Vec<u8>>> {
        match &self.kind {
            Kind::Pkcs8 => {
                let opened = EncryptedPrivateKeyInfoRef::try_from(&self.content[..]).ok()?.decrypt(passphrase).ok()?;
                Some(Zeroizing::new(opened.as_bytes().to_vec()))
            }
            Kind::Traditional { cipher, iv, .. } => {
                let (_, length, _, decrypt) = cipher;
                let opened = decrypt(&derived(passphrase, &iv[..8], *length), iv, &self.content)?;
                // The padding may be right by chance; the key inside is a sequence of this length.
                let mut reader = Reader(&opened);
                reader.take(SEQUENCE).filter(|_| reader.is_empty())?;
                Some(opened)
            }
        }
    }

    /// What was opened, as its form says.
    pub fn key<'a>(&self, opened: &'a [u8]) -> PrivateKeyDer<'a> {
        match self.kind {
            Kind::Pkcs8 => PrivatePkcs8KeyDer::from(opened).into(),
            Kind::Traditional { is_rsa: true, .. } => PrivatePkcs1KeyDer::from(opened).into(),
            Kind::Traditional { .. } => PrivateSec1KeyDer::from(opened).into(),
        }
    }

    /// Asks at the terminal for the passphrase of the key in this file.
    /// Error: `Denied` without a terminal, and after three wrong ones.
    pub fn ask(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
        let denied = |words: &str| Error::new(ErrorKind::Denied, OP).at(path.as_os_str().as_encoded_bytes()).because(words);
        let nobody = || {
            let words = "the private key is encrypted with a passphrase, and there is no terminal to ask for it";
            denied(words).hint(NEW_PROXY)
        };
        let mut question = format!("Passphrase of {}: ", path.display());
        for _ in 0..TRIES {
            let passphrase = terminal::ask(&question, nobody)?;
            if let Some(key) = self.open(&passphrase) {
                return Ok(key);
            }
            question = format!("Wrong passphrase. Passphrase of {}: ", path.display());
        }
        Err(denied("wrong passphrase").hint(NEW_PROXY))
    }
}

/// As OpenSSL derives keys of its own form: MD5 over the block before, the passphrase and the salt, once.
fn derived(passphrase: &str, salt: &[u8], length: usize) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(Vec::with_capacity(length + 16));
    while key.len() < length {
        let before = key.len().saturating_sub(16);
        let mut hasher = Md5::new();
        hasher.update(&key[before..]);
        hasher.update(passphrase.as_bytes());
        hasher.update(salt);
        key.extend_from_slice(&hasher.finalize());
    }
    key.truncate(length);
    key
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// What openssl makes of a key that it reads at its standard input.
    fn openssl(words: &str, input: &[u8]) -> Vec<u8> {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("openssl is installed");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input).expect("it reads");
        let made = child.wait_with_output().expect("it ends");
        assert!(made.status.success(), "openssl {words}");
        made.stdout
    }

    #[test]
    fn keys_of_openssl_are_opened_by_their_passphrase_alone() {
        let rsa = openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", b"");
        let ec = openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256", b"");
        let (rsa_plain, ec_plain) = (openssl("rsa -traditional -outform DER", &rsa), openssl("ec -outform DER", &ec));
        let pkcs8 = openssl("pkcs8 -topk8 -nocrypt -outform DER", &rsa);
        let mut forms = Vec::new();
        for cipher in ["aes128", "aes192", "aes256", "des3"] {
            forms.push((format!("rsa -traditional -{cipher} -passout pass:secret"), &rsa, &rsa_plain));
            forms.push((format!("ec -{cipher} -passout pass:secret"), &ec, &ec_plain));
        }
        for how in
            ["-v2 aes-256-cbc", "-v2 aes-128-cbc -v2prf hmacWithSHA1", "-v2 aes-192-cbc -v2prf hmacWithSHA512", "-v2 des3", "-scrypt"]
        {
            forms.push((format!("pkcs8 -topk8 {how} -passout pass:secret"), &rsa, &pkcs8));
        }
        for (words, key, plain) in forms {
            let locked = Locked::find(&openssl(&words, key)).expect("encrypted");
            let opened = locked.open("secret").unwrap_or_else(|| panic!("{words}"));
            assert!(opened.as_slice() == plain.as_slice(), "{words}");
            assert!(rustls::crypto::ring::sign::any_supported_type(&locked.key(&opened)).is_ok(), "{words}");
            assert!(["", "Secret", "secret "].iter().all(|wrong| locked.open(wrong).is_none()), "{words}");
        }
    }

    #[test]
    fn other_keys_are_told_apart() {
        let rsa = openssl("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", b"");
        assert_eq!(Locked::find(&rsa).expect_err("plain"), Unusable::Plain);
        assert_eq!(Locked::find(&openssl("rsa -traditional", &rsa)).expect_err("plain"), Unusable::Plain);
        assert_eq!(Locked::find(b"").expect_err("nothing"), Unusable::Plain);
        let camellia = openssl("rsa -traditional -camellia128 -passout pass:secret", &rsa);
        assert_eq!(Locked::find(&camellia).expect_err("unknown"), Unusable::Cipher("CAMELLIA-128-CBC".into()));
        let old = openssl("pkcs8 -topk8 -v1 PBE-SHA1-3DES -passout pass:secret", &rsa);
        assert!(matches!(Locked::find(&old), Err(Unusable::Cipher(_))));
        let text =
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        assert_eq!(Locked::find(text.as_bytes()).expect_err("a short vector"), Unusable::Damaged);
        assert_eq!(Locked::find(text.replace("AAAA", "*").as_bytes()).expect_err("no key"), Unusable::Damaged);
    }
}
