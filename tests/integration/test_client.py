"""A client of another make: Python's requests drives every endpoint once, as an agent would."""
import base64
import io
import tarfile

import requests

from daemon import KEY


def test_requests_drives_a_whole_session(daemon, no_leaks, debian):
    base = f"http://127.0.0.1:{daemon.port}/api/v1"
    with requests.Session() as client:
        client.headers["X-API-Key"] = KEY
        assert client.get(f"{base}/-/health/").ok and client.get(f"{base}/-/version/").ok
        created = client.post(f"{base}/session/", json={"base_image": debian})
        created.raise_for_status()
        url = f"{base}/session/{created.json()['session_id']}"

        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            info = tarfile.TarInfo("src/main.py")
            info.size = 12
            tar.addfile(info, io.BytesIO(b"print('hi')\n"))
        seeded = client.post(f"{url}/seed/", files={"repo_archive": ("repo.tar.gz", archive.getvalue(), "application/gzip")})
        assert seeded.status_code == 204 and seeded.content == b""

        ran = client.post(f"{url}/", json={"commands": ["python3 src/main.py", "false"], "fail_fast": True, "timeout": 60}).json()
        assert ran == {"results": [{"command": "python3 src/main.py", "output": "hi\n", "exit_code": 0},
                                   {"command": "false", "output": "", "exit_code": 1}]}

        def fs(operation, **body):
            return client.post(f"{url}/fs/{operation}", json=body).json()

        path = "/workspace/repo/new.txt"
        assert fs("write", path=path, content=base64.b64encode(b"one\ntwo\n").decode())["ok"]
        assert fs("edit", path=path, old="two", new="three")["occurrences"] == 1
        assert fs("read", path=path)["content"] == "one\nthree"
        assert fs("ls", path="/workspace/repo")["error"] is None
        assert fs("glob", path="/workspace/repo", pattern="**/*.py")["error"] is None
        assert fs("grep", path="/workspace/repo", pattern="three")["error"] is None
        assert fs("delete", path=path)["removed"]

        assert client.delete(f"{url}/").status_code == 204
        assert client.get(f"{url}/").status_code == 204
        assert client.delete(f"{url}/", params={"force": "true"}).status_code == 204
        assert client.get(f"{url}/").status_code == 404
