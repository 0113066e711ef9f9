"""SFTP servers of asyncssh and of paramiko on loopback: MAKE PORT HOST_KEY AUTHORIZED_KEYS. All of this machine's files are theirs."""

import os
import socket
import sys
import threading

make, port, host_key, authorized = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def serve_asyncssh():
    import asyncio
    import asyncssh

    async def main():
        server = await asyncssh.listen(
            "127.0.0.1", port, server_host_keys=[host_key], authorized_client_keys=authorized, sftp_factory=True
        )
        await server.wait_closed()

    asyncio.run(main())


def serve_paramiko():
    import paramiko

    key = paramiko.Ed25519Key(filename=host_key)
    allowed = open(authorized).read().split()[1]
    errors = paramiko.SFTPServer.convert_errno

    def attempt(work):
        try:
            work()
        except OSError as e:
            return errors(e.errno)
        return paramiko.SFTP_OK

    class Login(paramiko.ServerInterface):
        def check_auth_publickey(self, username, offered):
            return paramiko.AUTH_SUCCESSFUL if offered.get_base64() == allowed else paramiko.AUTH_FAILED

        def get_allowed_auths(self, username):
            return "publickey"

        def check_channel_request(self, kind, chanid):
            return paramiko.OPEN_SUCCEEDED

    class Handle(paramiko.SFTPHandle):
        def __init__(self, flags, fd):
            super().__init__(flags)
            self.fd = fd

        def read(self, offset, length):
            try:
                return os.pread(self.fd, length, offset)
            except OSError as e:
                return errors(e.errno)

        def write(self, offset, data):
            def work():
                # A full disk takes a part, and refuses the rest.
                done = 0
                while done < len(data):
                    done += os.pwrite(self.fd, data[done:], offset + done)

            return attempt(work)

        def stat(self):
            return paramiko.SFTPAttributes.from_stat(os.fstat(self.fd))

        def chattr(self, attr):
            return attempt(lambda: change(self.fd, attr))

        def close(self):
            os.close(self.fd)

    def change(file, attr):
        if attr.st_size is not None:
            os.truncate(file, attr.st_size)
        if attr.st_uid is not None:
            os.chown(file, attr.st_uid, attr.st_gid)
        if attr.st_mode is not None:
            os.chmod(file, attr.st_mode & 0o7777)
        if attr.st_mtime is not None:
            os.utime(file, (attr.st_atime, attr.st_mtime))

    class Files(paramiko.SFTPServerInterface):
        def list_folder(self, path):
            try:
                names = [(name, os.lstat(os.path.join(path, name))) for name in os.listdir(path)]
            except OSError as e:
                return errors(e.errno)
            return [paramiko.SFTPAttributes.from_stat(found, name) for name, found in names]

        def stat(self, path):
            try:
                return paramiko.SFTPAttributes.from_stat(os.stat(path))
            except OSError as e:
                return errors(e.errno)

        def lstat(self, path):
            try:
                return paramiko.SFTPAttributes.from_stat(os.lstat(path))
            except OSError as e:
                return errors(e.errno)

        def open(self, path, flags, attr):
            try:
                mode = attr.st_mode if attr.st_mode is not None else 0o666
                return Handle(flags, os.open(path, flags, mode & 0o7777))
            except OSError as e:
                return errors(e.errno)

        def remove(self, path):
            return attempt(lambda: os.remove(path))

        def rename(self, old, new):
            def work():
                if os.path.lexists(new):
                    raise FileExistsError(17, "File exists")
                os.rename(old, new)

            return attempt(work)

        def posix_rename(self, old, new):
            return attempt(lambda: os.replace(old, new))

        def mkdir(self, path, attr):
            return attempt(lambda: os.mkdir(path))

        def rmdir(self, path):
            return attempt(lambda: os.rmdir(path))

        def chattr(self, path, attr):
            return attempt(lambda: change(path, attr))

        def symlink(self, target, path):
            return attempt(lambda: os.symlink(target, path))

        def readlink(self, path):
            try:
                return os.readlink(path)
            except OSError as e:
                return errors(e.errno)

    def serve(connection):
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.set_subsystem_handler("sftp", paramiko.SFTPServer, Files)
        transport.start_server(server=Login())

    listener = socket.create_server(("127.0.0.1", port))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


{"asyncssh": serve_asyncssh, "paramiko": serve_paramiko}[make]()
