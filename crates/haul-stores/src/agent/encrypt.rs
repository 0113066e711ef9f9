//! The record layer of direct data connections: frames over TCP between two processes that share a secret, sent through a
//! session that is authenticated. `docs/data-connections.md` has the scheme to the byte and its threat model.
//!
//! ```text
//! connecting end                                accepting end
//! Connector::connect  -- hello, in the clear -> Acceptor::accept: made with the secret? number new?
//! Encryptor::encrypt  -- frame, frame, ...   -> Decryptor::decrypt
//! Decryptor::decrypt  <- frame, frame, ...   -- Encryptor::encrypt
//! ```
//!
//! The two directions have different keys and share nothing, so that each may have its own thread. An end knows its peer only
//! after the first frame was decrypted: only the holder of the secret can make one.

mod frames;

use std::fmt;
use std::io;

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use ring::aead::{AES_128_GCM, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

pub use frames::{Decryptor, Encryptor};

/// The most bytes in one frame before encryption: a chunk of 4 MiB and its description. 256 KiB to 1 MiB is fastest: large against
/// the cost of a frame, small against the processor's cache.
pub const MOST: usize = (4 << 20) + (64 << 10);

/// The length of the hello in bytes.
pub const HELLO: usize = 60;

/// What the connecting end sends first: magic, number, nonce, and an HMAC that proves knowledge of the secret.
pub type Hello = [u8; HELLO];

/// Changes with every change of the scheme.
const MAGIC: &[u8; 8] = b"haul\x00d1\n";
const NONCE: usize = 16;
/// Where the HMAC begins in a hello: it covers all before it.
const PROOF_AT: usize = MAGIC.len() + 4 + NONCE;
const SALT: &[u8] = b"haul data connections 1";

const HEADER: usize = 4;
const TAG: usize = 16;

/// Frames encrypted with one key. A frame of `MOST` bytes is 2^18.02 blocks, so a key sees at most 2^34.02 blocks: fewer than
/// the 2^34.5 that RFC 8446, section 5.5, allows AES-GCM. With frames of 1 MiB it sees 2^32.
const FRAMES_OF_A_KEY: u64 = 1 << 16;

/// How far behind the newest connection an older one may still arrive.
const WINDOW: u64 = 1024;

/// The secret of one session and one accepting end, from which the keys of all its connections are made. With one secret for
/// both directions, an end could be made to talk to itself.
///
/// It is sent inside the authenticated session only, not in arguments or the environment, is wiped when dropped, and has no
/// `Debug` output.
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; 32]>);

impl Secret {
    /// A new secret from the system's random source; fails if that does.
    pub fn random() -> Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        fill_at_random(&mut *bytes)?;
        Ok(Secret(bytes))
    }

    /// The secret that the other end made.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Secret(Zeroizing::new(bytes))
    }

    /// What to send to the other end, through the authenticated session only.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Derived by both ends from the secret, which is uniformly random and extracted with a constant. Number and nonce, which come
/// from the network, are inputs to a keyed function only.
#[derive(Debug)]
struct Root {
    prk: Prk,
    hello: hmac::Key,
}

impl Root {
    fn new(secret: &Secret) -> Self {
        let prk = Salt::new(HKDF_SHA256, SALT).extract(secret.as_bytes());
        let info: [&[u8]; 1] = [b"hello"];
        let hello = prk.expand(&info, hmac::HMAC_SHA256).map(hmac::Key::from).expect("32 bytes are within HKDF's bound");
        Root { prk, hello }
    }

    /// The keys of one direction of the connection that a hello began.
    fn keys(&self, direction: &[u8], hello: &Hello) -> Keys {
        let info = [direction, &hello[MAGIC.len()..PROOF_AT]];
        let traffic = self.prk.expand(&info, HKDF_SHA256).map(Prk::from).expect("32 bytes are within HKDF's bound");
        Keys::new(traffic)
    }
}

const FROM_CONNECTOR: &[u8] = b"connector";
const FROM_ACCEPTOR: &[u8] = b"acceptor";

/// The end that connects.
#[derive(Debug)]
pub struct Connector(Root);

impl Connector {
    /// Takes the secret, which serves this direction of connecting only.
    pub fn new(secret: Secret) -> Self {
        Connector(Root::new(&secret))
    }

    /// Begins a connection. The hello goes first, before any frame. Every connection of a session has its own number,
    /// in rising order: the other end takes each once, and none that is 1,024 or more behind the newest.
    /// Fails if the system's random source does.
    pub fn connect(&self, number: u32) -> Result<(Hello, Encryptor, Decryptor)> {
        let mut nonce = [0; NONCE];
        fill_at_random(&mut nonce)?;
        Ok(self.connect_with(number, nonce))
    }

    fn connect_with(&self, number: u32, nonce: [u8; NONCE]) -> (Hello, Encryptor, Decryptor) {
        let mut hello = [0; HELLO];
        hello[..8].copy_from_slice(MAGIC);
        hello[8..12].copy_from_slice(&number.to_be_bytes());
        hello[12..PROOF_AT].copy_from_slice(&nonce);
        let proof = hmac::sign(&self.0.hello, &hello[..PROOF_AT]);
        hello[PROOF_AT..].copy_from_slice(proof.as_ref());
        let encryptor = Encryptor::new(self.0.keys(FROM_CONNECTOR, &hello));
        let decryptor = Decryptor::new(self.0.keys(FROM_ACCEPTOR, &hello));
        (hello, encryptor, decryptor)
    }
}

/// The end that listens: there is one for a secret, since it remembers which connections there were.
#[derive(Debug)]
pub struct Acceptor {
    root: Root,
    numbers: Numbers,
}

impl Acceptor {
    /// Takes the secret, which serves this direction of connecting only.
    pub fn new(secret: Secret) -> Self {
        Acceptor { root: Root::new(&secret), numbers: Numbers::default() }
    }

    /// Checks the first `HELLO` bytes of a connection and returns its number. `Corrupt` for what was not made with the
    /// secret and for a connection that was there before; then nothing is to be sent. A stranger's hello changes nothing here.
    ///
    /// A hello that is accepted may still be a recorded one that never arrived: the other end is authenticated by its first frame.
    pub fn accept(&mut self, hello: &Hello) -> Result<(u32, Encryptor, Decryptor)> {
        let refused = |reason: &str| Error::new(ErrorKind::Corrupt, "accept").because(reason);
        if &hello[..8] != MAGIC {
            return Err(refused("not a data connection of this version of haul"));
        }
        if hmac::verify(&self.root.hello, &hello[..PROOF_AT], &hello[PROOF_AT..]).is_err() {
            return Err(refused("a connection without this session's secret"));
        }
        let number = u32::from_be_bytes([hello[8], hello[9], hello[10], hello[11]]);
        if !self.numbers.take(number) {
            return Err(refused("a replayed or expired connection"));
        }
        let encryptor = Encryptor::new(self.root.keys(FROM_ACCEPTOR, hello));
        let decryptor = Decryptor::new(self.root.keys(FROM_CONNECTOR, hello));
        Ok((number, encryptor, decryptor))
    }
}

/// Which connection numbers were taken. Of the last `WINDOW` numbers each is known; what is older counts as taken.
#[derive(Debug, Default)]
struct Numbers {
    /// One more than the highest number taken.
    next: u64,
    /// A bit for each number of the window, at its remainder by `WINDOW`.
    taken: [u64; (WINDOW / 64) as usize],
}

impl Numbers {
    /// Takes a number; false if it was taken or is too old to know.
    fn take(&mut self, number: u32) -> bool {
        let number = u64::from(number);
        if number >= self.next {
            for passed in self.next.max((number + 1).saturating_sub(WINDOW))..=number {
                let (word, bit) = Self::place(passed);
                self.taken[word] &= !bit;
            }
            self.next = number + 1;
        } else if self.next - number > WINDOW {
            return false;
        }
        let (word, bit) = Self::place(number);
        let new = self.taken[word] & bit == 0;
        self.taken[word] |= bit;
        new
    }

    fn place(number: u64) -> (usize, u64) {
        let at = number % WINDOW;
        ((at / 64) as usize, 1 << (at % 64))
    }
}

/// The keys of one direction, which give each frame a key and a nonce that no other frame has.
struct Keys {
    traffic: Prk,
    generation: u64,
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// The number of the next frame, from the connection's start.
    frame: u64,
    /// Frames in a generation; another number in tests only.
    each: u64,
}

impl Keys {
    fn new(traffic: Prk) -> Self {
        let (key, iv) = Self::generation(&traffic, 0);
        Keys { traffic, generation: 0, key, iv, frame: 0, each: FRAMES_OF_A_KEY }
    }

    fn generation(traffic: &Prk, generation: u64) -> (LessSafeKey, [u8; NONCE_LEN]) {
        let generation = generation.to_be_bytes();
        let info: [&[u8]; 2] = [b"key", &generation];
        let key = traffic.expand(&info, &AES_128_GCM).map(UnboundKey::from).expect("16 bytes are within HKDF's bound");
        (LessSafeKey::new(key), expand(traffic, &[b"iv", &generation]))
    }

    fn next(&mut self) -> (&LessSafeKey, Nonce) {
        let generation = self.frame / self.each;
        if generation != self.generation {
            (self.key, self.iv) = Self::generation(&self.traffic, generation);
            self.generation = generation;
        }
        let mut nonce = self.iv;
        for (byte, count) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.frame.to_be_bytes()) {
            *byte ^= count;
        }
        self.frame += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}

/// Without key and iv.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("frame", &self.frame).finish_non_exhaustive()
    }
}

/// What becomes of an error of the connection below. One of ours that travelled through it stays as it is.
fn lost(error: io::Error, op: &'static str) -> Error {
    if error.get_ref().is_some_and(|inner| inner.is::<Error>()) {
        return Error::from_io(error, op);
    }
    let lost = match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::new(ErrorKind::Broken, op).because("the connection ended too early"),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::io(error, op).kind_is(ErrorKind::TimedOut),
        _ => Error::io(error, op).kind_is(ErrorKind::Broken),
    };
    lost.remedy_is(Remedy::Reconnect)
}

fn fill_at_random(bytes: &mut [u8]) -> Result<()> {
    SystemRandom::new().fill(bytes).map_err(|_| Error::new(ErrorKind::Other, "connect").because("the system gives no random numbers"))
}

/// HKDF-Expand to bytes, where ring has no type for what they are.
fn expand<const N: usize>(prk: &Prk, info: &[&[u8]]) -> [u8; N] {
    struct Length(usize);
    impl KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut bytes = [0; N];
    prk.expand(info, Length(N)).and_then(|okm| okm.fill(&mut bytes)).expect("within HKDF's bound of 255 times 32 bytes");
    bytes
}

#[cfg(test)]
mod tests;
