//! Requests to one endpoint: signed, sent, and retried.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::retry::{Policy, Tries};
use http::header::HeaderValue;
use http::{Method, Request, Uri};
use ureq::SendBody;

use super::account::{Account, AccountOptions, Addressing, DEFAULT_REGION};
use super::address::{self, Endpoint, Style};
use super::call::{Answer, Body, Call};
use super::checksum_modes::{ChecksumModes, UNVERIFIED};
use super::fault::Refusal;
use super::memory_budget::Held;
use super::pause::Pause;
use super::sign::{Credential, Payload, Signer};
use haul_net::http_client::agent::{agent, request_error};
use haul_net::http_client::contact::Contact;
use haul_net::http_client::pace::Pace;
use haul_net::http_client::parallel::Threads;
use haul_net::http_client::time;

/// Redirects of one request at the most.
const REDIRECTS: u32 = 3;
/// Tries of a request to an endpoint that is silent, for commands that give up.
const SILENT_TRIES: u32 = 2;
/// How long a check for newer credentials holds: a bucket may have many objects that are denied.
const DOUBT: Duration = Duration::from_secs(60);

/// One endpoint as one account sees it. Any number of threads may use it.
pub struct Client {
    agent: ureq::Agent,
    account: Account,
    endpoint: Endpoint,
    /// Whether somebody named the endpoint; else it is Amazon's, one for each region.
    named: bool,
    /// Regions and styles that were found out, by bucket.
    routes: Mutex<HashMap<String, Route>>,
    signers: Mutex<HashMap<String, Arc<Signer>>>,
    pub modes: ChecksumModes,
    pause: Pause,
    pub(super) held: Arc<Held>,
    /// The endpoint sends whole objects where ranges are requested.
    pub(super) ignores_ranges: AtomicBool,
    /// Prints a line for the user, and the lines that were printed.
    print: Option<fn(&str)>,
    said: Mutex<Vec<String>>,
    /// How many keys the service has removed by one request in time.
    pub(super) removed_at_once: AtomicUsize,
    pub(super) threads: Threads,
    pub(super) contact: Contact,
    /// The server is MinIO, by its own word: its listings have metadata where they are asked for.
    minio: AtomicBool,
    /// The endpoint does not write objects on the condition that there is none.
    pub(super) writes_unconditionally: AtomicBool,
    pub(super) pace: Pace,
    /// A listing that was to begin behind a key did not.
    pub(super) from_start: AtomicBool,
    /// Buckets that are there: each is asked for once in a process.
    pub(super) known_buckets: Mutex<HashSet<String>>,
    /// The service has said once that a credential is over, and no other was to be had.
    expiry_reported: AtomicBool,
    doubted: Mutex<Option<Doubted>>,
}

/// A credential that may have expired, as far as anybody can tell from an answer without a document.
struct Doubted {
    credential: Arc<Credential>,
    at: Instant,
    /// There was a newer one.
    renewed: bool,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.endpoint)
    }
}

#[derive(Clone, Debug)]
struct Route {
    signer: Arc<Signer>,
    style: Style,
}

enum Failure {
    Refused(Refusal),
    Broken(Error),
}

impl Client {
    /// As the command line and the settings say. Reads files and sends nothing.
    pub fn open(asked: &AccountOptions) -> Result<Client> {
        let account = Account::open(asked)?;
        let address: Uri =
            endpoint_of(&account)?.to_string().parse().map_err(|_| Error::new(ErrorKind::Usage, "connect").because("is no address"))?;
        let agent = agent(&account.agent_config(&address))?;
        Client::new(account, agent)
    }

    /// Nothing is sent yet. The endpoint is the one that was named, or Amazon's.
    pub fn new(account: Account, agent: ureq::Agent) -> Result<Client> {
        let (endpoint, named) = (endpoint_of(&account)?, account.endpoint().is_some());
        Ok(Client {
            agent,
            account,
            endpoint,
            named,
            routes: Mutex::default(),
            signers: Mutex::default(),
            modes: ChecksumModes::default(),
            pause: Pause::default(),
            held: Arc::default(),
            ignores_ranges: AtomicBool::new(false),
            print: None,
            said: Mutex::default(),
            removed_at_once: AtomicUsize::new(usize::MAX),
            threads: Threads::default(),
            contact: Contact::default(),
            minio: AtomicBool::new(false),
            writes_unconditionally: AtomicBool::new(false),
            pace: Pace::default(),
            from_start: AtomicBool::new(false),
            known_buckets: Mutex::default(),
            expiry_reported: AtomicBool::new(false),
            doubted: Mutex::default(),
        })
    }

    /// With a function that prints a line for the user.
    #[must_use]
    pub fn printing(self, print: Option<fn(&str)>) -> Client {
        Client { print, ..self }
    }

    /// The profile that an address named.
    pub fn profile(&self) -> Option<&str> {
        self.account.profile_alone()
    }

    /// The endpoint as a person would name it.
    pub fn endpoint_words(&self) -> String {
        match self.named {
            true => self.endpoint.to_string().split_once("://").map(|(_, rest)| rest.to_string()).unwrap_or_default(),
            false => "amazonaws.com".to_string(),
        }
    }

    /// Whether the server has said that it is MinIO: its listings have metadata where they are asked for.
    pub(super) fn is_minio(&self) -> bool {
        self.minio.load(Ordering::Relaxed)
    }

    /// Whether the endpoint is Amazon's, one for each region, as no other was named.
    pub fn is_amazon(&self) -> bool {
        !self.named
    }

    /// The address of a request, and who signs it, as far as the way to its bucket is known.
    pub(super) fn place_of(&self, call: &Call<'_>) -> Result<(Uri, Arc<Signer>)> {
        let route = self.route(call.bucket);
        Ok((self.uri(call, &route)?, route.signer))
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Begins with what an earlier run found out of the endpoint: `state` is haul's state directory.
    pub fn remember(&self, state: &Path) {
        self.modes.remember(state, &self.endpoint.to_string());
    }

    fn lock<'a, T>(&self, what: &'a Mutex<T>) -> MutexGuard<'a, T> {
        what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn say_once(&self, line: String) {
        let mut said = self.lock(&self.said);
        if let Some(print) = self.print.filter(|_| !said.contains(&line)) {
            print(&line);
            said.push(line);
        }
    }

    /// Ranges cost whole objects from now on.
    pub(super) fn deny_ranges(&self) {
        if !self.ignores_ranges.swap(true, Ordering::Relaxed) {
            let server = self.endpoint_words();
            self.say_once(format!(
                "{server} ignores Range: objects are read from their start, by one worker each; resuming reads them again"
            ));
        }
    }

    fn signer(&self, region: &str) -> Arc<Signer> {
        self.lock(&self.signers).entry(region.to_string()).or_insert_with(|| Arc::new(Signer::new(region))).clone()
    }

    /// How a bucket is addressed, as far as that is known.
    fn route(&self, bucket: &str) -> Route {
        if let Some(route) = self.lock(&self.routes).get(bucket) {
            return route.clone();
        }
        let region = self.account.region().unwrap_or(DEFAULT_REGION);
        let style = match self.account.addressing() {
            Addressing::Path => Style::Path,
            Addressing::Virtual => Style::Virtual,
            Addressing::Auto => Style::likely(&self.endpoint, bucket),
        };
        Route { signer: self.signer(region), style }
    }

    fn set_route(&self, bucket: &str, route: Route) {
        self.lock(&self.routes).insert(bucket.to_string(), route);
    }

    fn uri(&self, call: &Call<'_>, route: &Route) -> Result<Uri> {
        let bad = |reason: String| Error::new(ErrorKind::BadName, call.op).because(reason);
        let regional = match self.named {
            true => None,
            false => {
                // A bucket is made and removed in its region. What has dots in its name has no certificate at the accelerated hosts.
                let within = !(call.bucket.is_empty() || (call.key.is_empty() && call.query.is_empty() && call.method != Method::HEAD));
                let within = within && route.style == Style::Virtual && !call.bucket.contains('.');
                Some(Endpoint::of_region(route.signer.region()).map_err(bad)?.of_variant(self.account.variant(), within))
            }
        };
        let query: Vec<(&str, &str)> = call.query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let bucket = Some(call.bucket).filter(|bucket| !bucket.is_empty());
        address::target(regional.as_ref().unwrap_or(&self.endpoint), route.style, bucket, call.key, &query).map_err(bad)
    }

    /// Sends a request until it is answered, as the retry policy allows. An answer without success is an error. A request with a
    /// reader is for the caller to repeat.
    pub fn send(&self, call: &Call<'_>, mut body: Body<'_>) -> Result<Answer> {
        let (mut tries, mut redirects) = (Tries::begin(), 0);
        let (mut refreshed, mut skewed) = (false, false);
        let may_repeat = !matches!(body, Body::Stream(..));
        let began = Instant::now();
        loop {
            self.pause.wait();
            let route = self.route(call.bucket);
            let credential = self.account.credential().map_err(|e| e.kind_is(ErrorKind::Broken))?;
            let miss = match self.once(call, &mut body, &route, credential.as_ref()) {
                Ok(answer) => return answer.by_object_store(call.op).map(|answer| Answer { tries: tries.failed() + 1, ..answer }),
                Err(miss) => miss,
            };
            let error = match miss {
                Failure::Refused(refusal) => {
                    let refusal = self.explained(call, refusal, &route, credential.as_ref());
                    if let Some(route) = self.redirected(call.bucket, &route, &refusal)
                        && redirects < REDIRECTS
                    {
                        redirects += 1;
                        self.set_route(call.bucket, route);
                        if may_repeat {
                            continue;
                        }
                        return Err(refusal.error(call.op, call.bucket).remedy_is(Remedy::Again));
                    }
                    if refusal.is_expiry()
                        && let Some(spent) = &credential
                    {
                        let renewed = !refreshed && self.account.refresh(spent).is_ok();
                        // One clock may run a little ahead of another: after the first report the request is sent once more.
                        let again = renewed || !self.expiry_reported.swap(true, Ordering::Relaxed);
                        refreshed = true;
                        if !again {
                            return Err(refusal.error(call.op, call.bucket).kind_is(ErrorKind::Broken).remedy_is(Remedy::None));
                        }
                        if may_repeat {
                            continue;
                        }
                        return Err(refusal.error(call.op, call.bucket).remedy_is(Remedy::Again));
                    }
                    if refusal.may_be_expiry()
                        && !refreshed
                        && let Some(spent) = credential.as_ref().filter(|credential| credential.is_temporary())
                    {
                        refreshed = true;
                        if self.is_renewed(spent) && may_repeat {
                            continue;
                        }
                    }
                    if refusal.is_skew() && may_repeat && !skewed {
                        skewed = true;
                        continue;
                    }
                    if refusal.rejects_checksum() && call.has_checksum() {
                        let e = Error::new(ErrorKind::Unsupported, UNVERIFIED).because(refusal.reason(call.bucket));
                        return Err(match &body {
                            // The reader is spent: the next try of the whole part uses another mode.
                            Body::Stream(..) if call.mode().is_none_or(|mode| self.modes.deny(mode)) => e.remedy_is(Remedy::Again),
                            _ => e,
                        });
                    }
                    let error = refusal.error(call.op, call.bucket);
                    if call.divisible && matches!(refusal.status, 408 | 504) {
                        return Err(error.kind_is(ErrorKind::TimedOut).remedy_is(Remedy::None));
                    }
                    if refusal.is_throttling() {
                        self.pause.begin(Policy::default().wait(tries.failed() + 1, error.remedy()));
                    }
                    if !refusal.is_passing() {
                        return Err(error.tried(tries.failed() + 1));
                    }
                    error
                }
                // When a long wait is over the service may be at it still.
                Failure::Broken(error) if error.kind() == ErrorKind::TimedOut && (call.idle_timeout.is_some() || call.divisible) => {
                    return Err(error.remedy_is(Remedy::None));
                }
                Failure::Broken(error)
                    if error.kind() == ErrorKind::TimedOut && self.account.gives_up() && tries.failed() + 1 >= SILENT_TRIES =>
                {
                    return Err(error.exhausted(1, Duration::ZERO));
                }
                Failure::Broken(error) => self.contact.judge(error, tries.failed() + 1, began)?,
            };
            if !may_repeat {
                return Err(error);
            }
            let (error, again) = tries.after(error)?;
            tries.pause(&error, again)?;
        }
    }

    /// Whether there is a newer credential than this one. Other threads wait for the answer.
    fn is_renewed(&self, spent: &Arc<Credential>) -> bool {
        let mut doubted = self.lock(&self.doubted);
        if let Some(known) = &*doubted
            && known.credential.is_same(spent)
            && known.at.elapsed() < DOUBT
        {
            return known.renewed;
        }
        // What the service meant is not known: that there is no newer one is no error of its own.
        let renewed = self.account.refresh(spent).is_ok();
        *doubted = Some(Doubted { credential: spent.clone(), at: Instant::now(), renewed });
        renewed
    }

    fn once(
        &self,
        call: &Call<'_>,
        body: &mut Body<'_>,
        route: &Route,
        credential: Option<&Arc<Credential>>,
    ) -> std::result::Result<Answer, Failure> {
        let uri = self.uri(call, route).map_err(Failure::Broken)?;
        let mut headers = call.headers.clone();
        let (payload, length) = match body {
            Body::None => (Payload::Empty, None),
            Body::Bytes(bytes) => (Payload::Unsigned, Some(bytes.len() as u64)),
            Body::Stream(_, length, payload) => (*payload, Some(*length)),
        };
        let length = length.or((call.method == Method::PUT || call.method == Method::POST).then_some(0));
        if let Some(length) = length {
            headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        if let Some(credential) = credential {
            let now = SystemTime::now();
            route.signer.sign(&call.method, &uri, &mut headers, payload, credential, now).map_err(Failure::Broken)?;
        } else if matches!(payload, Payload::StreamingUnsignedTrailer) {
            headers.insert("x-amz-content-sha256", HeaderValue::from_static("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
        }
        let mut request = Request::new(());
        *request.method_mut() = call.method.clone();
        let address = uri.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        if call.idle_timeout.is_some() {
            request = self.agent.configure_request(request).timeout_per_read(call.idle_timeout).build();
        }
        let sent = Instant::now();
        let answered = match body {
            Body::None if length.is_none() => self.agent.run(request),
            Body::None => self.agent.run(request.map(|()| SendBody::from_owned_reader(std::io::empty()))),
            Body::Bytes(bytes) => self.agent.run(request.map(|()| *bytes)),
            Body::Stream(reader, ..) => self.agent.run(request.map(|()| SendBody::from_reader(reader))),
        };
        let answer = answered.map_err(|e| Failure::Broken(request_error(e, &address, self.agent.config().proxy(), call.op)))?;
        let (parts, body) = answer.into_parts();
        self.contact.made(sent);
        let answer = Answer { status: parts.status, headers: parts.headers, body, tries: 1 };
        if answer.status.is_success() {
            if answer.header("server") == Some("MinIO") {
                self.minio.store(true, Ordering::Relaxed);
            }
            return Ok(answer);
        }
        let date = answer.header("date").and_then(time::http);
        let refusal = Refusal::of(answer);
        if refusal.is_skew()
            && let Some(server) = date
            && let Some(server) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(server.secs.max(0).unsigned_abs()))
        {
            route.signer.learn_clock(server, SystemTime::now());
        }
        Err(Failure::Refused(refusal))
    }

    /// An answer to HEAD has no document that says why it is none: the same request by GET has.
    fn explained(&self, call: &Call<'_>, refusal: Refusal, route: &Route, credential: Option<&Arc<super::sign::Credential>>) -> Refusal {
        if call.method != Method::HEAD || !refusal.bare || !matches!(refusal.status, 400 | 401 | 403) {
            return refusal;
        }
        let get = Call { method: Method::GET, query: call.query.clone(), headers: call.headers.clone(), ..*call };
        let get = if call.key.is_empty() { get.ask("max-keys", "1") } else { get.with("range", "bytes=0-0") };
        match self.once(&get, &mut Body::None, route, credential) {
            Err(Failure::Refused(said)) if said.status == refusal.status => said,
            _ => refusal,
        }
    }

    /// The way that a refusal points to, if it is another one.
    fn redirected(&self, bucket: &str, route: &Route, refusal: &Refusal) -> Option<Route> {
        let elsewhere = matches!(refusal.status, 301 | 307 | 308 | 400 | 403);
        if let Some(region) = refusal.region.as_deref().filter(|region| elsewhere && *region != route.signer.region())
            && is_region(region)
        {
            return Some(Route { signer: self.signer(region), ..route.clone() });
        }
        let wants_host =
            matches!(refusal.code.as_str(), "SecondLevelDomainForbidden" | "PathStyleRequestNotAllowed" | "VirtualHostDomainRequired");
        (wants_host && route.style == Style::Path && !bucket.is_empty()).then(|| Route { style: Style::Virtual, ..route.clone() })
    }
}

/// The endpoint that was named, or Amazon's.
fn endpoint_of(account: &Account) -> Result<Endpoint> {
    let region = account.region().unwrap_or(DEFAULT_REGION);
    let wrong = |reason: String| Error::new(ErrorKind::Usage, "connect").at(region.as_bytes()).because(reason);
    account.endpoint().map_or_else(|| Endpoint::of_region(region).map_err(wrong), |endpoint| Ok(endpoint.clone()))
}

fn is_region(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}
