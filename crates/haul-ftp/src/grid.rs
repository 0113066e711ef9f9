//! `gsiftp://`: how a session with a GridFTP server begins (GFD.20): both sides authenticate with certificates, and from then on
//! every command and reply is protected. No answer of the server makes anything less protected than was asked for.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use haul_core::error::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;

use super::control::{Control, TOKEN_MOST, tls_failure};
use super::flags::Flags;
use super::gsi::{Authorities, Context, Credential, Guard, now, refused, sign};
use super::reply::Reply;
use haul_net::http_client::Environment;

const OP: &str = "authenticate";
pub const PORT: u16 = 2811;
/// The user whom the server derives from the certificate.
pub const MAPPED_USER: &str = ":globus-mapping:";
/// What is delegated: nothing, or a proxy.
const NOTHING: &[u8] = b"0";
const PROXY: &[u8] = b"D";
/// Tokens of one exchange.
const ROUNDS: usize = 20;
/// Bytes of a protected buffer that this side takes.
const BUFFER: &str = "1048576";

#[derive(Debug)]
pub struct Grid {
    credential: Credential,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Of data connections; `None` with `--no-dcau`.
    pub guard: Option<Arc<Guard>>,
}

impl Grid {
    /// Error: `Denied` without a usable credential or without trusted authorities.
    pub fn new(host: &str, flags: &Flags, environment: &Environment, print: &dyn Fn(&str)) -> Result<Grid> {
        if flags.ftp_active && !flags.no_dcau {
            let e = Error::new(ErrorKind::Usage, "connect").because("--ftp-active cannot authenticate data connections");
            return Err(e.hint("omit it, or add --no-dcau (insecure)"));
        }
        let name = ServerName::try_from(host.to_string());
        let name =
            name.map_err(|_| Error::new(ErrorKind::Usage, "connect").because("the host has no name that a certificate could be for"))?;
        let credential = Credential::find(environment, print)?;
        let authorities = Authorities::read(environment, print)?;
        let tls = |e: rustls::Error| tls_failure(io::Error::other(e), OP);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS12]).map_err(tls)?;
        let shown = Arc::new(SingleCertAndKey::from(credential.certified.clone()));
        let mut config = config.dangerous().with_custom_certificate_verifier(Arc::new(authorities)).with_client_cert_resolver(shown);
        config.resumption = rustls::client::Resumption::disabled();
        let guard = match flags.no_dcau {
            true => None,
            false => Some(Arc::new(Guard::new(&credential, name.clone(), flags.dcpriv).map_err(tls)?)),
        };
        Ok(Grid { credential, config: Arc::new(config), name, guard })
    }

    /// Authenticates both sides, delegates a proxy if data connections need it, and protects the control connection.
    pub fn begin(&self, control: &mut Control) -> Result<()> {
        let reply = control.ask("AUTH", b"GSSAPI", OP)?;
        if !reply.needs_more() {
            let e = refused(format!("the server does not offer GSI: {}", reply.shown()));
            return Err(e.hint("nothing was sent in clear text; without certificates write ftp:// or ftps://"));
        }
        control.line_most = TOKEN_MOST;
        let tls = |e: io::Error| tls_failure(e, OP);
        let mut context = Context::new(self.config.clone(), self.name.clone()).map_err(tls)?;
        let mut is_complete = false;
        let mut is_asked = false;
        for _ in 0..ROUNDS {
            let mut token = context.outgoing().map_err(tls)?;
            if !context.is_handshaking() && !is_asked {
                token.extend(context.wrap(if self.guard.is_some() { PROXY } else { NOTHING }).map_err(tls)?);
                is_asked = true;
            }
            let reply = control.ask("ADAT", STANDARD.encode(&token).as_bytes(), OP)?;
            if reply.needs_more() || reply.is_done() {
                let answer = token_of(&reply)?;
                let clear = context.unwrap(&answer).map_err(|e| {
                    // The server is to hear why it is refused, in so far as TLS says it; the error that counts is this one.
                    let alert = context.outgoing().unwrap_or_default();
                    let _ = control.ask("ADAT", STANDARD.encode(alert).as_bytes(), OP);
                    tls(e)
                })?;
                if reply.is_done() {
                    is_complete = is_asked && clear.is_empty();
                    break;
                }
                if !clear.is_empty() {
                    if self.guard.is_none() || !is_asked {
                        return Err(refused("the server asked for a proxy that was not offered to it"));
                    }
                    let certificate = sign(&clear, &self.credential, now())?;
                    context.wrap_later(&certificate).map_err(tls)?;
                }
            } else {
                return Err(self.denied(&reply));
            }
        }
        if !is_complete || context.is_handshaking() {
            return Err(refused("the server ended the authentication before it was complete"));
        }
        control.protect(context)
    }

    fn denied(&self, reply: &Reply) -> Error {
        let e = refused(format!("the server does not accept the certificate {}: {}", self.credential.own.shown_subject(), reply.shown()));
        e.hint("its administrator has to trust the authority that signed it, and to map its name to an account")
    }

    /// How data connections are protected.
    pub fn settle(&self, control: &mut Control) -> Result<()> {
        let agree = |control: &mut Control, word: &str, argument: &str| {
            let reply = control.ask(word, argument.as_bytes(), "set up the session")?;
            if reply.is_done() {
                return Ok(());
            }
            let e = refused(format!("the server refuses {word} {argument}: {}", reply.shown()));
            Err(match word {
                "DCAU" => e.hint("--no-dcau does without authenticated data connections (insecure)"),
                _ => e,
            })
        };
        match &self.guard {
            None => agree(control, "DCAU", "N"),
            Some(guard) => {
                agree(control, "DCAU", "A")?;
                agree(control, "PBSZ", BUFFER)?;
                agree(control, "PROT", if guard.is_private() { "P" } else { "C" })
            }
        }
    }
}

/// The token of `335 ADAT=...`; none in a reply without one.
fn token_of(reply: &Reply) -> Result<Vec<u8>> {
    let text = reply.text.trim_ascii();
    let Some(token) = text.strip_prefix(b"ADAT=") else {
        return match reply.is_done() {
            true => Ok(Vec::new()),
            false => Err(refused(format!("the server sent no token: {}", reply.shown()))),
        };
    };
    STANDARD.decode(token).map_err(|_| refused("the server sent a token that is not base64"))
}
