FROM python:3.12-slim

# A fresh volume at this place takes over its owner. Its group is root's, which clusters give to the
# users that they make up.
RUN useradd --uid 10001 --no-create-home --home-dir /var/lib/slidestat slidestat \
    && install --directory --owner slidestat --group root --mode 0775 /var/lib/slidestat

WORKDIR /src
# The dependencies first: this layer stays when only the code changes.
COPY requirements.lock ./
RUN pip install --no-cache-dir --only-binary :all: --require-hashes -r requirements.lock

COPY LICENSE README.md pyproject.toml ./
COPY app app
COPY scripts/long_description.py scripts/wheel_units.py scripts/
COPY schemas schemas
COPY topologies topologies
RUN pip install --no-cache-dir --no-deps .
# Containers start without compiling: machine code of the kernels lies in the package.
RUN python -m slidestat.kernels.units \
    "$(python -c 'import slidestat; print(slidestat.__path__[0])')/kernel_units"

# By its number: clusters that let no root in cannot look up a name.
USER 10001
WORKDIR /var/lib/slidestat
# Also of a user without a name. All else may be read-only.
ENV HOME=/var/lib/slidestat PYTHONUNBUFFERED=1
ENTRYPOINT ["slidestat"]
