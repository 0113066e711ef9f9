//! The library of credential providers gets files, programs and servers through this, each with a bound. Its functions are
//! asynchronous in form only: they block, so that no runtime is needed.

use std::fmt;
use std::future::Future;
use std::io::{self, Read};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use reqsign_core::{CommandExecute, CommandOutput, Context, Error, FileRead, HttpSend};
use ureq::SendBody;

use super::profile::contents;
use haul_net::http_client::agent::{AgentConfig, Agents};

/// How long an instance's or a container's own server may take: it is next door or it is not there.
const METADATA: Duration = Duration::from_secs(2);

/// How long the services that hand out credentials may take.
const SERVICE: Duration = Duration::from_secs(30);

/// How long a `credential_process` may take; some ask a person to press a button.
const PROGRAM: Duration = Duration::from_secs(180);

/// The most bytes that an answer or a program's output may have.
const MOST: u64 = 1 << 20;

/// Runs a future to its end on this thread: what it waits for blocks by itself.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = TaskContext::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Reaches servers, and remembers why the last one could not be reached: the library does not always pass that on.
#[derive(Clone)]
pub(super) struct CredentialIo(Arc<Inner>);

/// Where the services that hand out credentials are, if the settings say so: scheme, host and port.
#[derive(Clone, Debug, Default)]
pub(super) struct Services {
    pub(super) sts: Option<Uri>,
    pub(super) sso: Option<Uri>,
    pub(super) oidc: Option<Uri>,
}

struct Inner {
    agents: Agents,
    services: Services,
    failure: Mutex<Option<String>>,
}

impl CredentialIo {
    pub(super) fn new(common: AgentConfig, services: Services) -> CredentialIo {
        CredentialIo(Arc::new(Inner { agents: Agents::new(common), services, failure: Mutex::default() }))
    }

    pub(super) fn context(&self) -> Context {
        Context::new().with_env(self.0.agents.environment().clone()).with_file_read(Files).with_http_send(self.clone())
    }

    /// For a provider that runs a program: this one, whatever it asks for.
    pub(super) fn context_with(&self, program: Vec<String>) -> Context {
        self.context().with_command_execute(Program(program))
    }

    pub(super) fn last_failure(&self) -> Option<String> {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The address with STS's place changed to what the settings say.
    pub(super) fn redirected(&self, uri: &Uri) -> Uri {
        let (Some(to), true) = (&self.0.services.sts, uri.host().is_some_and(|host| host.starts_with("sts."))) else {
            return uri.clone();
        };
        let mut parts = uri.clone().into_parts();
        parts.scheme = to.scheme().cloned();
        parts.authority = to.authority().cloned();
        Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
    }

    /// Settings of the agent for this address: an instance's or a container's own server is next door and behind no proxy.
    fn adapt(&self, uri: &Uri, common: AgentConfig, service: bool) -> AgentConfig {
        let Services { sts, sso, oidc } = &self.0.services;
        let is_service = [sts, sso, oidc].into_iter().flatten().any(|service| service.authority() == uri.authority());
        let common = AgentConfig { connections: 2, buffer: 16 << 10, ..common };
        if uri.scheme_str() == Some("https") || is_service || service {
            AgentConfig { idle_timeout: SERVICE, ..common }
        } else {
            AgentConfig { connect: METADATA / 2, idle_timeout: METADATA, use_proxy: false, ..common }
        }
    }

    /// Sends a request for a service at an address that the caller has from the settings.
    pub(super) fn ask_service(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        self.exchange(request, true)
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        self.exchange(request, false)
    }

    fn exchange(&self, request: Request<Bytes>, service: bool) -> Result<Response<Bytes>, String> {
        let (mut parts, body) = request.into_parts();
        parts.uri = self.redirected(&parts.uri);
        let agent = self.0.agents.get(&parts.uri, |common| self.adapt(&parts.uri, common, service)).map_err(|error| error.to_string())?;
        let host = parts.uri.host().unwrap_or("").to_string();
        let answer = if body.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
            parts.headers.remove(http::header::CONTENT_LENGTH);
            agent.run(Request::from_parts(parts, ()))
        } else {
            // Without it an empty body is sent in chunks, which instance servers refuse.
            parts.headers.insert(http::header::CONTENT_LENGTH, body.len().into());
            agent.run(Request::from_parts(parts, SendBody::from_reader(&mut &body[..])))
        };
        let (parts, mut body) = answer.map_err(|error| format!("{host}: {error}"))?.into_parts();
        let mut bytes = Vec::new();
        let read = body.as_reader().take(MOST).read_to_end(&mut bytes);
        read.map_err(|error| format!("{host}: {error}"))?;
        Ok(Response::from_parts(parts, Bytes::from(bytes)))
    }
}

impl HttpSend for CredentialIo {
    async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        self.send(request).map_err(|words| {
            *self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(words.clone());
            Error::unexpected(words)
        })
    }
}

impl fmt::Debug for CredentialIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialIo").finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let text = contents(path.as_ref()).map_err(|error| Error::config_invalid(format!("{path}: {error}")))?;
        Ok(text.as_bytes().to_vec())
    }
}

/// Runs one program, with nothing on its standard input and for so long.
struct Program(Vec<String>);

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

impl CommandExecute for Program {
    async fn command_execute<'a>(&'a self, _: &'a str, _: &'a [&'a str]) -> reqsign_core::Result<CommandOutput> {
        run(&self.0, PROGRAM).map_err(|error| Error::config_invalid(format!("{}: {error}", self.0.first().map_or("", |name| name))))
    }
}

fn run(words: &[String], bound: Duration) -> io::Result<CommandOutput> {
    let (name, arguments) = words.split_first().ok_or_else(|| io::Error::other("no program is named"))?;
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // Both are read at once, or a program that writes much to one would wait for ever.
    let (out, err) = (child.stdout.take().map(collected), child.stderr.take().map(collected));
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() >= bound {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("took longer than {} seconds", bound.as_secs())));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    };
    // A child of its own that lives on may hold the pipes open.
    let text = |pipe: Option<Receiver<Vec<u8>>>| pipe.and_then(|pipe| pipe.recv_timeout(METADATA).ok()).unwrap_or_default();
    Ok(CommandOutput { status: status.code().unwrap_or(-1), stdout: text(out), stderr: text(err) })
}

/// All that comes out of a pipe, read by a thread of its own.
fn collected(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    let read = move || {
        let mut bytes = Vec::new();
        // What came before a failure is judged by the receiver, which may have ended.
        let _ = pipe.take(MOST).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    };
    // Without a thread nothing is received, and the command counts as one that printed nothing.
    let _ = haul_core::rlimit::spawn("command", read);
    receiver
}

/// Splits a command of the settings into words: blanks separate, quotes and backslashes keep blanks. It is never given to a shell.
pub(super) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None, ' ' | '\t' | '\n') => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(open), letter) if letter == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_people_mean_it() {
        let split = |command| words(command).unwrap();
        assert_eq!(split("/bin/a  b\tc"), ["/bin/a", "b", "c"]);
        assert_eq!(split("\"/my programs/a\" 'x \"y' z\\ w \"\" a'b'c"), ["/my programs/a", "x \"y", "z w", "", "abc"]);
        assert_eq!(split("a '\\n' \"\\\"\" ; rm $HOME"), ["a", "\\n", "\"", ";", "rm", "$HOME"]);
        for bad in ["", "  ", "a 'b", "a \\"] {
            assert_eq!(words(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let sleep = ["sleep".to_string(), "600".to_string()];
        let error = run(&sleep, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(run(&["/nowhere/at/all".to_string()], PROGRAM).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
