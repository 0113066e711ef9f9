//! A bucket of its own for each test, at one server for all of them, and a directory to run the program in.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use haul_test::objects::plain::{self, Answer};
use haul_test::objects::{Endpoint, ObjectServer, Scripted};
pub use haul_test::program::{Ended, Program, until};
use haul_test::scratch::Scratch;

/// The least size of a part that is not the last.
pub const PART: usize = 5 << 20;

/// The server that all tests share, gone with the last of them.
fn server() -> Arc<ObjectServer> {
    static SERVER: Mutex<Weak<ObjectServer>> = Mutex::new(Weak::new());
    let mut server = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    server.upgrade().unwrap_or_else(|| {
        let started = Arc::new(ObjectServer::minio().expect("MinIO can be started: servers.sh installs it"));
        *server = Arc::downgrade(&started);
        started
    })
}

pub struct World {
    scratch: Scratch,
    /// The real server, for what is set up and looked up without haul.
    pub real: Endpoint,
    /// Where the program sends its requests.
    pub endpoint: Endpoint,
    pub bucket: String,
    server: Arc<ObjectServer>,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    pub fn new() -> World {
        World::at(server())
    }

    /// At a server of its own.
    pub fn at(server: Arc<ObjectServer>) -> World {
        let world = World::without_bucket(server);
        world.server.make_bucket(&world.bucket).expect("a bucket");
        world
    }

    /// At a server that was started for it.
    pub fn of(server: std::io::Result<ObjectServer>) -> World {
        World::at(Arc::new(server.expect("servers.sh installs it")))
    }

    /// At a server of its own, where the bucket is not made.
    pub fn without_bucket(server: Arc<ObjectServer>) -> World {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bucket = format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let real = server.endpoint().clone();
        let mut scratch = Scratch::new();
        // The home and the state directory are in it.
        scratch.remove("");
        scratch.work.pop();
        World { scratch, endpoint: real.clone(), real, bucket, server }
    }

    /// With a server between, whose answers the test scripts.
    pub fn scripted() -> (World, Scripted) {
        let mut world = World::new();
        let scripted = Scripted::before(&world.real).expect("it listens");
        world.endpoint = scripted.endpoint(&world.real);
        (world, scripted)
    }

    /// The program with these words, split at blanks. `@` stands for the bucket's address, `~` for the working directory.
    pub fn haul(&self, words: &str) -> Program {
        let words = words.replace('@', &format!("s3://{}", self.bucket));
        let program = self.scratch.haul(&words);
        let program = program.env("AWS_ENDPOINT_URL", &self.endpoint.url).env("AWS_REGION", &self.endpoint.region);
        let program = program.env("AWS_ACCESS_KEY_ID", &self.endpoint.access).env("AWS_SECRET_ACCESS_KEY", &self.endpoint.secret);
        // Nothing else on the machine may answer in place of these.
        program.env("AWS_EC2_METADATA_DISABLED", "true")
    }

    /// A request for the bucket or a key in it, by a client that is not haul. `target` is encoded.
    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        plain::request(&self.real, method, &format!("/{}{target}", self.bucket), headers, body).expect("the server answers")
    }

    #[track_caller]
    pub fn put(&self, key: &[u8], headers: &[(&str, &str)], body: &[u8]) {
        self.request("PUT", &format!("/{}", encode(key)), headers, body)
            .success()
            .unwrap_or_else(|e| panic!("{}: {e}", key.escape_ascii()));
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Vec<u8> {
        self.request("GET", &format!("/{}", encode(key.as_bytes())), &[], b"").success().unwrap_or_else(|e| panic!("{key}: {e}")).body
    }

    /// The value of a header of an object.
    pub fn header(&self, key: &str, name: &str) -> Option<String> {
        self.request("HEAD", &format!("/{}", encode(key.as_bytes())), &[], b"").header(name).map(str::to_owned)
    }

    /// Up to 1,000 keys, as a listing has them.
    pub fn keys(&self) -> Vec<String> {
        let listed = self.request("GET", "?encoding-type=url&list-type=2", &[], b"").success().expect("a listing").text();
        between(&listed, "<Key>", "</Key>").collect()
    }

    /// Unfinished uploads of one key.
    pub fn uploads(&self, key: &str) -> Vec<String> {
        let prefix = encode(key.as_bytes()).replace('/', "%2F");
        let listed = self.request("GET", &format!("?prefix={prefix}&uploads="), &[], b"").success().expect("a listing").text();
        between(&listed, "<UploadId>", "</UploadId>").collect()
    }
}

fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = String> + 'a {
    text.split(open).skip(1).filter_map(move |rest| rest.split(close).next()).map(str::to_owned)
}

/// As in a URL, slashes left as they are.
pub fn encode(key: &[u8]) -> String {
    key.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => text.push(char::from(*byte)),
            byte => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
        text
    })
}
