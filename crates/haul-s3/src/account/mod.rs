//! Who asks, and whom: credentials by the whole AWS chain, the endpoint, the region.
//!
//! ```text
//! flags (AccountOptions) -+
//! environment  --+-> Account::open -> endpoint, region, addressing      settled once, nothing is sent
//! ~/.aws files --+
//!                     credential() -> chain::find -> kept until five minutes before it ends
//! ```
//!
//! Opening reads files and nothing else. The chain runs when the first request needs a credential; it may run a program or
//! ask a server, each with a bound.

mod chain;
mod io;
mod profile;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use haul_core::error::{Error, ErrorKind, Result};
use http::Uri;

use self::profile::Profiles;
use super::address::{Endpoint, Variant};
pub use super::sign::Credential;
pub use haul_net::http_client::Environment;
use haul_net::http_client::TlsFlags;
use haul_net::http_client::agent::AgentConfig;

/// The region of a request when nothing names one.
pub const DEFAULT_REGION: &str = "us-east-1";

/// How long before its end a credential is replaced: a request that is signed now may be judged a while later.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// How long a chain that found nothing is not walked again: hundreds of requests would wait for the same nothing.
const PAUSE: Duration = Duration::from_secs(10);

/// The profiles of the user's files, sorted; none of files that cannot be read.
pub fn profiles(environment: &Environment) -> Vec<String> {
    Profiles::read(environment).map(|profiles| profiles.names().into_iter().map(str::to_string).collect()).unwrap_or_default()
}

/// What the command line says about access, all of it optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOptions {
    pub profile: Option<String>,
    /// Only the profile sets server and keys, and region where `region` does not: variables for them do not count, and
    /// `endpoint_url` must be unset.
    pub profile_alone: bool,
    pub endpoint_url: Option<String>,
    pub region: Option<String>,
    /// Requests go out unsigned, for public buckets.
    pub no_sign_request: bool,
    /// For the first role that requires MFA; asked for at the terminal if there is none.
    pub mfa_code: Option<String>,
    pub tls: TlsFlags,
    /// Idle timeout of requests, where that is less than usual.
    pub idle_timeout: Option<Duration>,
    /// Two such timeouts of one request in a row are the end of it: nothing else watches over it.
    pub gives_up: bool,
    pub environment: Environment,
}

/// How buckets appear in addresses, as far as settings say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    #[default]
    Auto,
    Path,
    Virtual,
}

/// Who asks. One for each endpoint and profile of a run; any number of threads may use it.
pub struct Account {
    asked: AccountOptions,
    profile: Profile,
    endpoint: Option<Endpoint>,
    region: Option<String>,
    variant: Variant,
    addressing: Addressing,
    bundle: Option<PathBuf>,
    held: Mutex<Held>,
    /// Held by the thread that walks the chain.
    seeking: Mutex<()>,
    /// `mfa_code` was used: each is good for one request.
    code_used: AtomicBool,
}

/// The profile that is used, and whether somebody named it.
#[derive(Clone, Debug)]
struct Profile {
    name: String,
    named: Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    /// On the command line: the variables with keys do not count then.
    Flag,
    Variable,
    No,
}

#[derive(Default)]
struct Held {
    found: Option<chain::Found>,
    failed: Option<(SystemTime, Error)>,
}

impl Account {
    /// Reads the settings and decides everything but the credential. Sends nothing.
    ///
    /// Usage errors: a profile that is not there, an endpoint that is no address, a region that is no name, a settings
    /// file that makes no sense.
    pub fn open(asked: &AccountOptions) -> Result<Account> {
        let environment = &asked.environment;
        let profiles = Profiles::read(environment)?;
        let profile = match (&asked.profile, environment.first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"])) {
            (Some(name), _) => Profile { name: name.clone(), named: Named::Flag },
            (None, Some((_, name))) => Profile { name, named: Named::Variable },
            (None, None) => Profile { name: "default".to_string(), named: Named::No },
        };
        if profile.named != Named::No && !profiles.knows(&profile.name) {
            return Err(unknown_profile(&profile.name, &profiles));
        }
        let endpoint = endpoint(asked, &profiles, &profile.name)?;
        let region = region(asked, &profiles, &profile.name)?;
        let variant = variant(asked, &profiles, &profile.name);
        if let Some(word) = variant.word().filter(|_| endpoint.is_some()) {
            let e =
                usage("open account", format!("the settings ask for {word} endpoints, which only Amazon has, and name another endpoint"));
            return Err(e.hint("leave out one of the two: see AWS_USE_FIPS_ENDPOINT, AWS_USE_DUALSTACK_ENDPOINT and the profile"));
        }
        if variant.fips && variant.accelerate {
            return Err(usage("open account", "the settings ask for FIPS and for accelerate endpoints, and there is none that is both"));
        }
        let addressing = match profiles.nested(&profile.name, "s3", "addressing_style") {
            Some("path") => Addressing::Path,
            Some("virtual") => Addressing::Virtual,
            _ => Addressing::Auto,
        };
        let bundle = bundle(asked, &profiles, &profile.name);
        let (held, seeking, code_used) = Default::default();
        Ok(Account { asked: asked.clone(), profile, endpoint, region, variant, addressing, bundle, held, seeking, code_used })
    }

    /// The account in a word that stays when credentials are renewed: the profile, or the access key if set and permanent.
    pub fn scope(&self) -> String {
        let environment = &self.asked.environment;
        let key = environment.get("AWS_ACCESS_KEY_ID").filter(|key| !key.is_empty() && environment.get("AWS_SESSION_TOKEN").is_none());
        match self.profile.named {
            _ if self.is_anonymous() => String::new(),
            Named::Flag => self.profile.name.clone(),
            Named::Variable | Named::No => key.unwrap_or_else(|| self.profile.name.clone()),
        }
    }

    /// The profile, where that alone says who asks.
    pub fn profile_alone(&self) -> Option<&str> {
        self.asked.profile_alone.then_some(&self.profile.name)
    }

    /// The endpoint that was named; without one it is AWS's for the region.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// The region that was named; without one, `DEFAULT_REGION` until the service says another.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Which of Amazon's endpoints are asked for.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    pub fn addressing(&self) -> Addressing {
        self.addressing
    }

    pub fn gives_up(&self) -> bool {
        self.asked.gives_up
    }

    pub fn is_anonymous(&self) -> bool {
        self.asked.no_sign_request
    }

    /// The agent for an endpoint, as far as settings say.
    pub fn agent_config(&self, endpoint: &Uri) -> AgentConfig {
        let usual = AgentConfig::of(endpoint.clone(), self.asked.environment.clone());
        let idle_timeout = self.asked.idle_timeout.map_or(usual.idle_timeout, |timeout| timeout.min(usual.idle_timeout));
        let connect = usual.connect.min(idle_timeout);
        AgentConfig { verify: !self.asked.tls.no_verify_ssl, ca_bundle: self.bundle.clone(), connect, idle_timeout, ..usual }
    }

    /// The credential to sign with, none for unsigned requests. Cached; within five minutes of its end one thread gets the next
    /// and the others continue with it.
    pub fn credential(&self) -> Result<Option<Arc<Credential>>> {
        self.credential_at(SystemTime::now())
    }

    fn credential_at(&self, now: SystemTime) -> Result<Option<Arc<Credential>>> {
        if self.is_anonymous() {
            return Ok(None);
        }
        let kept = self.kept();
        match &kept {
            Some(kept) if is_fresh(kept, now) => return Ok(Some(kept.clone())),
            Some(kept) if !is_over(kept, now) => match self.seeking.try_lock() {
                // What is kept still serves, even if the next cannot be had yet.
                Ok(turn) => return Ok(Some(self.seek(turn, Some(kept), now).unwrap_or_else(|_| kept.clone()))),
                Err(_) => return Ok(Some(kept.clone())),
            },
            _ => {}
        }
        let turn = self.seeking.lock().unwrap_or_else(PoisonError::into_inner);
        self.seek(turn, kept.as_ref(), now).map(Some)
    }

    /// The credential after the service said that `spent` has expired: one that another thread got meanwhile, or the chain's. If
    /// it is the same again, an error of kind `Denied`.
    pub fn refresh(&self, spent: &Arc<Credential>) -> Result<Option<Arc<Credential>>> {
        self.refresh_at(spent, SystemTime::now())
    }

    fn refresh_at(&self, spent: &Arc<Credential>, now: SystemTime) -> Result<Option<Arc<Credential>>> {
        if self.is_anonymous() {
            return Ok(None);
        }
        let turn = self.seeking.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.seek(turn, Some(spent), now)?;
        if next.is_same(spent) {
            let words = format!("the service says that the credential {} has expired, and no newer one is to be had", spent.shown());
            let error = Error::new(ErrorKind::Denied, "find credentials").because(words).hint(self.login_hint());
            self.held().failed = Some((now, error.again()));
            return Err(error);
        }
        Ok(Some(next))
    }

    /// Walks the chain, unless somebody has replaced `old` while this thread waited for its turn.
    fn seek(&self, _turn: MutexGuard<'_, ()>, old: Option<&Arc<Credential>>, now: SystemTime) -> Result<Arc<Credential>> {
        {
            let held = self.held();
            if let Some(found) = &held.found
                && !old.is_some_and(|old| old.is_same(&found.credential))
            {
                return Ok(found.credential.clone());
            }
            if let Some((when, error)) = &held.failed
                && now.duration_since(*when).is_ok_and(|since| since < PAUSE)
            {
                return Err(error.again());
            }
        }
        let answer = chain::find(self);
        let mut held = self.held();
        match answer {
            Ok(found) => {
                let credential = found.credential.clone();
                *held = Held { found: Some(found), failed: None };
                Ok(credential)
            }
            Err(error) => {
                held.failed = Some((now, error.again()));
                Err(error)
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> Option<Arc<Credential>> {
        self.held().found.as_ref().map(|found| found.credential.clone())
    }

    /// One line about who asks, without a secret: where the credential came from, its id shortened, how long it lasts.
    pub fn whose(&self) -> String {
        if self.is_anonymous() {
            return "nobody: requests are not signed".to_string();
        }
        let held = self.held();
        let Some(found) = &held.found else {
            return format!("profile {}, no credential looked for yet", self.profile.name);
        };
        let mut line = format!("{} from {}", found.credential.shown(), found.place);
        if let Some(end) = found.credential.expires() {
            match end.duration_since(SystemTime::now()) {
                Ok(left) => line.push_str(&format!(", good for {} min", left.as_secs() / 60)),
                Err(_) => line.push_str(", expired"),
            }
        }
        line
    }

    fn login_hint(&self) -> String {
        format!("get new credentials (for instance `aws sso login --profile {}`) and run the same command again", self.profile.name)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("profile", &self.profile)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("addressing", &self.addressing)
            .field("whose", &self.whose())
            .finish_non_exhaustive()
    }
}

fn is_over(credential: &Credential, now: SystemTime) -> bool {
    credential.expires().is_some_and(|end| end <= now)
}

fn is_fresh(credential: &Credential, now: SystemTime) -> bool {
    credential.expires().is_none_or(|end| end > now + EARLY)
}

fn usage(op: &'static str, words: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, op).because(words)
}

fn unknown_profile(name: &str, profiles: &Profiles) -> Error {
    let files = format!("{} or {}", profiles.config.path.display(), profiles.credentials.path.display());
    let known = profiles.names();
    let hint = match known.len() {
        0 => "make one with `aws configure --profile NAME`".to_string(),
        _ => format!("there are: {}", known.iter().take(20).copied().collect::<Vec<_>>().join(", ")),
    };
    usage("open account", format!("no profile named {name} in {files}")).hint(hint)
}

/// Whether AWS's own settings for endpoints do not count.
fn ignores_endpoints(environment: &Environment, profiles: &Profiles, profile: &str) -> bool {
    environment.is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
        || profiles.get(profile, "ignore_configured_endpoint_urls").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Flag, variables, profile; none of AWS's own settings where `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` says so.
fn endpoint(asked: &AccountOptions, profiles: &Profiles, profile: &str) -> Result<Option<Endpoint>> {
    let environment = &asked.environment;
    let ignored = ignores_endpoints(environment, profiles, profile);
    let flag = asked.endpoint_url.clone().map(|url| (url, "--endpoint-url".to_string()));
    let variables: &[&'static str] =
        if ignored { &["S3_ENDPOINT_URL"] } else { &["S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] };
    let variable = || environment.first(variables).map(|(name, url)| (url, name.to_string())).filter(|_| !asked.profile_alone);
    let written = || {
        let url = profiles.service_endpoint(profile, "s3").or_else(|| profiles.get(profile, "endpoint_url"));
        url.filter(|_| !ignored).map(|url| (url.to_string(), format!("profile {profile}")))
    };
    let Some((url, said_by)) = flag.or_else(variable).or_else(written) else {
        return if ignored { Ok(None) } else { profiles.check_services(profile).map(|()| None) };
    };
    let wrong =
        || usage("open account", format!("{url:?} ({said_by}) is no endpoint: it must be http://HOST[:PORT] or https://HOST[:PORT]"));
    Endpoint::parse(&url).map(Some).ok_or_else(wrong)
}

/// Flag, variable, profile, and the variable that Python's programs read.
fn bundle(asked: &AccountOptions, profiles: &Profiles, profile: &str) -> Option<PathBuf> {
    let environment = &asked.environment;
    let written = || profiles.get(profile, "ca_bundle").map(str::to_string);
    let named = || environment.get("AWS_CA_BUNDLE").or_else(written).or_else(|| environment.get("REQUESTS_CA_BUNDLE"));
    asked.tls.ca_bundle.clone().or_else(|| named().map(|path| environment.path(&path)))
}

fn region(asked: &AccountOptions, profiles: &Profiles, profile: &str) -> Result<Option<String>> {
    let variables = || asked.environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).map(|(_, region)| region);
    let variable = || variables().filter(|_| !asked.profile_alone);
    let written = || profiles.get(profile, "region").map(str::to_string);
    let Some(region) = asked.region.clone().or_else(variable).or_else(written) else {
        return Ok(None);
    };
    // It becomes part of a host's name.
    if region.is_empty() || region.len() > 63 || !region.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err(usage("open account", format!("{region:?} is no name of a region")));
    }
    Ok(Some(region))
}

/// Variable, profile. `--profile` in an address does not shield from the variables: FIPS may be an order.
fn variant(asked: &AccountOptions, profiles: &Profiles, profile: &str) -> Variant {
    let is = |text: &str| text.eq_ignore_ascii_case("true");
    let set = |variable: &'static str, key: &str| match asked.environment.get(variable) {
        Some(value) => is(&value),
        None => profiles.get(profile, key).is_some_and(is),
    };
    let s3 = |key: &str| profiles.nested(profile, "s3", key).is_some_and(is);
    Variant {
        fips: set("AWS_USE_FIPS_ENDPOINT", "use_fips_endpoint"),
        dual_stack: set("AWS_USE_DUALSTACK_ENDPOINT", "use_dualstack_endpoint") || s3("use_dualstack_endpoint"),
        accelerate: s3("use_accelerate_endpoint"),
    }
}

#[cfg(test)]
mod tests;
