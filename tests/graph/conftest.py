from tests.index.conftest import corpus as corpus
