FROM python:3.12-slim

# The numbers of the user and its folder: a fresh volume at this place takes over their owner.
RUN useradd --create-home --uid 10001 slidestat \
    && install --directory --owner slidestat /var/lib/slidestat

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
RUN python -m slidestat.synopses.core.kernels.units \
    "$(python -c 'import slidestat; print(slidestat.__path__[0])')/kernel_units"

USER slidestat
WORKDIR /var/lib/slidestat
ENV PYTHONUNBUFFERED=1
ENTRYPOINT ["slidestat"]
